"""Tries hypotheses, the likely ones first, until one makes the result right or the time is up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.check.blame.arena import Arena, Changes
from simulator.check.blame.beside import processes, run_beside
from simulator.check.blame.change import Hypothesis, together
from simulator.check.blame.timer import Timer
from simulator.check.expected import wrong
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, Operation

SECONDS = 7.0  # that the search may take
RIVALS = 1.5  # seconds that are spent on finding others beside a hypothesis that mends the result
EXPLORED = 0.4  # of these, those are tried whose score is this share of that of the first that was found
RIVAL_WEIGHT = 0.55  # of a rival at least, as a share of the weight of the one that was found
ALL_OF_LINE, ALL_OF_OPCODE = 0.9, 0.8  # weight of one mistake at several instructions, as a share of that at one
USUAL = 0.85  # weight from which on a hypothesis is tried early, whatever its instruction feeds
HELPS = 0.97  # share of the wrong elements that a change leaves at most which may be a part of the answer
MOST_UNSURE = 32  # hypotheses that are tried on the whole launch though some elements are not written any more
MOST_FAILED = 40  # hypotheses that mend some CTAs and not all, after which the search has found what it can
UNKNOWN = 0.5  # share of the elements that an instruction feeds which are wrong, where trials do not say
MOST_ANSWERS = 3  # that are told
LONG = 0.1  # seconds of a batch from which on several run at a time, each in a process of its own
A_BATCH = 1.5  # seconds that a batch should take: of many trials at once each costs less
FIRST, FEWEST = 32, 8  # trials of the first batch, and of any at least
NEARLY = 0.85  # share of the weight of the first answer from which on others are tried beside it
MOST = 0.5  # share of the wrong elements
PARTIAL = 0.1  # share of the wrong elements that a partial answer may leave
LONGER = 6  # times as many items as others that a trial may take which is tried again
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Outcome:
    """What a trial came to.

    Attributes:
        hypothesis: that was tried.
        left: elements that are wrong with it.
        work: warp instructions of the launch with it, if it is an answer.
    """

    hypothesis: Hypothesis
    left: int
    work: int = 0


@dataclass
class Evidence:
    """Which elements an instruction feeds: those that change if it is left out.

    Attributes:
        covers: share of the wrong elements that it feeds.
        share: share of the elements that it feeds which are wrong.
    """

    covers: float
    share: float


@dataclass
class Search:
    """The trials of one launch.

    Attributes:
        arena: runs them.
        expected: by buffer, the array.
        base: by buffer, uint8 [byte], what the CTAs of the arena leave without a change, and `initial` before.
        owned: by buffer, bool [*shape]: the elements that these CTAs write.
        whole: whether the arena has all CTAs.
        wrong: elements that are wrong without a change.
        executed: the places that these CTAs come to.
        mends: gives the warp instructions of the whole launch with some changes; 0 if it is not right then.
        timer, deadline: the time that the search has taken, and at which it ends.
    """

    capture: Capture
    kernel: Kernel
    arena: Arena
    base: Mapping[str, NDArray[np.uint8]]
    initial: Mapping[str, NDArray[np.uint8]]
    rtol: float
    atol: float
    owned: Mapping[str, Bools]
    whole: bool
    timer: Timer
    deadline: float
    mends: Callable[[Changes], int]
    executed: frozenset[int]
    found: list[Outcome] = field(default_factory=list)
    best: Outcome | None = None
    evidence: dict[int, Evidence] = field(default_factory=dict)
    tried: int = 0

    def __post_init__(self) -> None:
        self._helped: dict[Hashable, dict[int, Hypothesis]] = defaultdict(dict)
        self._renewed: set[Hashable] = set()
        self._late: list[Hypothesis] = []
        self._answered: set[tuple[int, ...]] = set()
        self._failed = 0
        self._unsure = 0
        self._left: dict[int, int] = {}
        self._size = min(FIRST, self.arena.copies)
        self.wrong_before = {name: self._wrong(name, data[None])[0] for name, data in self.base.items()}
        if not self.whole:
            self.wrong_before = {name: each & self.owned[name] for name, each in self.wrong_before.items()}
        self.wrong = sum(int(each.sum()) for each in self.wrong_before.values())

    # Trials

    def feed(self, trials: Sequence[Hypothesis], deadline: float) -> None:
        """Finds out which elements instructions feed, by trials that leave them out or disturb what they give."""
        for part, data, ended in self._batches(trials):
            self._late = []
            for number, each in enumerate(part):
                found = self._evidence({name: rows[number] for name, rows in data.items()}, bool(ended[number]))
                known = self.evidence.get(each.place)
                if known is None or (found.covers, found.share) > (known.covers, known.share):
                    self.evidence[each.place] = found
            if self.timer.spent > deadline:
                return

    def feeds_little(self, place: int) -> bool:
        """Whether an instruction is not known to feed most of what is wrong."""
        known = self.evidence.get(place)
        return known is None or known.covers < MOST

    def feeds(self, place: int) -> bool:
        """Whether an instruction feeds some of what is wrong, or nobody has looked."""
        known = self.evidence.get(place)
        return known is None or known.covers > 0

    def _evidence(self, data: Mapping[str, NDArray[np.uint8]], ended: bool) -> Evidence:
        fed = wrong_fed = 0
        for name, each in data.items():
            differs = self._elements(name, each[None] != self.base[name][None])[0]
            fed += int(differs.sum())
            wrong_fed += int((differs & self.wrong_before[name] & self.owned[name]).sum())
        written = sum(int((each & self.owned[name]).sum()) for name, each in self.wrong_before.items())
        if not ended or not written:  # it says nothing, or wrong elements are those that nothing writes
            return Evidence(1.0 if fed or not ended else 0.0, UNKNOWN)
        return Evidence(wrong_fed / written, wrong_fed / max(fed, 1))

    def alone(self, outcome: Outcome) -> bool:
        """Whether no other instruction explains as much as that of an outcome that leaves something wrong."""
        own = {self.kernel.items[place].line for place in outcome.hypothesis.changes}
        return all(left > outcome.left for line, left in self._left.items() if line not in own)

    def score(self, each: Hypothesis) -> float:
        """How likely a hypothesis is, given which elements its instructions feed."""
        known = [self.evidence[place] for place in each.changes if place in self.evidence]
        if not known:
            return each.weight * 0.5
        covers = min(sum(evidence.covers for evidence in known), 1.0)
        share = max(evidence.share for evidence in known)
        feeding = 0.15 + 0.85 * covers**2
        if each.weight >= USUAL:
            feeding = max(feeding, 0.75)
        return each.weight * feeding * (0.15 + 0.85 * share)

    def try_early(self, hypotheses: Iterable[Hypothesis], deadline: float) -> None:
        """Tries hypotheses that are likely by themselves, the likeliest first, until one of them is an answer and those
        that are nearly as likely have been tried as well."""
        ordered = sorted(hypotheses, key=lambda each: each.weight, reverse=True)
        usual, limit = self.deadline, 0.0
        self.deadline = min(usual, deadline)
        first = 0
        while first < len(ordered):
            part = ordered[first : first + self._size]
            first += len(part)
            self._try(part)
            if self.found and not limit:
                limit = NEARLY * max(each.hypothesis.weight for each in self.found)
                self.deadline = min(usual, max(self.deadline, self.timer.spent + RIVALS))
            if self.timer.spent > self.deadline or (limit and part[-1].weight < limit):
                break
        if not self.found:
            self.deadline = usual

    def try_all(self, hypotheses: Iterable[Hypothesis]) -> None:
        """Tries hypotheses, the likely ones first; and those of one kind together that make some elements right."""
        ordered = sorted(hypotheses, key=self.score, reverse=True)
        first, limit = 0, 0.0
        while first < len(ordered):
            size = self._size * processes()
            part = ordered[first : first + size]
            self._try(part)
            self._try(self._joined())
            if self._failed >= MOST_FAILED:
                return
            first += size
            if first >= len(ordered):
                self._try_late()
            if self.found and not limit:
                limit = EXPLORED * max(self.score(each.hypothesis) for each in self.found)
                self.deadline = min(self.deadline, self.timer.spent + RIVALS)
            if self.timer.spent > self.deadline or (limit and self.score(part[-1]) < limit):
                return

    def _try(self, hypotheses: Sequence[Hypothesis]) -> None:
        for part, data, ended in self._batches(hypotheses):
            for number, each in enumerate(part):
                self.tried += 1
                if ended[number]:
                    self._judge(each, {name: rows[number : number + 1] for name, rows in data.items()})

    def _joined(self) -> list[Hypothesis]:
        """Changes of one kind, each of which makes some elements right, as one: of the kinds that have new ones."""
        found = []
        for key in self._renewed:
            group = list(self._helped[key].values())
            if len(group) > 1:
                found.append(together(group))
        self._renewed.clear()
        return found

    def _batches(
        self, trials: Sequence[Hypothesis]
    ) -> Iterator[tuple[Sequence[Hypothesis], dict[str, NDArray[np.uint8]], Bools]]:
        """The trials that run at a time, the bytes that they leave, and which have come to their end."""
        first, beside = 0, 1
        while first < len(trials) and self.timer.spent <= self.deadline:
            size = self._size
            began, last = self.timer.spent, min(first + size * beside, len(trials))
            batches = [
                [each for each in trials[begin : min(begin + size, last)] if self._runs(each)]
                for begin in range(first, last, size)
            ]
            batches = [batch for batch in batches if batch]
            gave = run_beside(self.arena, [[each.changes for each in batch] for batch in batches]) if batches else []
            for batch, results in zip(batches, gave, strict=True):
                self._late += [each for each, late in zip(batch, results.late.tolist(), strict=True) if late]
                yield batch, {name: results.data[name] for name in self.capture.after}, results.ended
            took = self.timer.spent - began
            beside, first = processes() if took > LONG else 1, last
            self._size = int(np.clip(size * A_BATCH / max(took, 1e-3), min(FEWEST, size), 2 * size))
            self._size = min(self._size, self.arena.copies)

    def _try_late(self) -> None:
        """Tries those again that take much longer than the launch itself, among themselves."""
        late, self._late = self._late, []
        usual, self.arena.most = self.arena.most, LONGER * self.arena.most
        self._try(late)
        self.arena.most, self._late = usual, []

    def _runs(self, each: Hypothesis) -> bool:
        """Whether all of its instructions can be executed."""
        try:
            self.arena.compiles(each.changes)
        except (Error, AssertionError, KeyError, ValueError, TypeError, AttributeError):
            return False
        return True

    def _judge(self, each: Hypothesis, data: Mapping[str, NDArray[np.uint8]]) -> None:
        left = unknown = right = 0
        for name, row in data.items():
            wrong_now = self._wrong(name, row)[0]
            if not self.whole:
                changed, owned = self._changed(name, row)[0], self.owned[name]
                wrong_now &= owned | changed
                unknown += int((wrong_now & ~changed & self.wrong_before[name]).sum())
                right += int((changed & owned & ~wrong_now).sum())
            left += int(wrong_now.sum())
        if unknown and left == unknown <= right and self._unsure < MOST_UNSURE:
            self._unsure += 1  # other CTAs may write what is not written any more
            left = 0
        outcome = Outcome(each, left)
        work = self.whole_work(each) if left == 0 else 0
        if work:
            self.found.append(replace(outcome, work=work))
        elif left <= HELPS * self.wrong and len(each.changes) == 1:
            for key in (each.key, *each.other_keys):
                self._helped[key][each.place] = each
                self._renewed.add(key)
        if left:
            for place in each.changes:
                line = self.kernel.items[place].line
                self._left[line] = min(left, self._left.get(line, left))
        if left and (self.best is None or left < self.best.left):
            self.best = outcome

    def whole_work(self, each: Hypothesis) -> int:
        """The warp instructions of the launch as a whole, of a hypothesis that mends the CTAs of the arena; 0 if the
        whole is not right."""
        places = tuple(sorted(each.changes))
        if places in self._answered or self._failed >= MOST_FAILED:
            return 0
        work = self.mends(each.changes)
        if work:
            self._answered.add(places)
        else:
            self._failed += 1
        return work

    def answers(self) -> list[Hypothesis]:
        """The hypotheses that mend the launch, the likeliest first, without those that are far less likely. Which does
        less work is likelier: a mistake is not mended by computing things twice."""
        least = min((each.work for each in self.found), default=0)
        scores = [(self.score(each.hypothesis) * least / each.work, each.hypothesis) for each in self.found]
        scores.sort(key=lambda entry: entry[0], reverse=True)
        return [each for score, each in scores if score >= RIVAL_WEIGHT * scores[0][0]][:MOST_ANSWERS]

    # Elements

    def _wrong(self, name: str, rows: NDArray[np.uint8]) -> Bools:
        """bool [row, *shape]: wrong elements of a buffer in each row of bytes."""
        expected = self.capture.after[name]
        arrays = np.ascontiguousarray(rows).view(expected.dtype).reshape(len(rows), *expected.shape)
        return wrong(arrays, expected, self.rtol, self.atol)

    def _changed(self, name: str, rows: NDArray[np.uint8]) -> Bools:
        return self._elements(name, rows != self.initial[name][None])

    def _elements(self, name: str, differs: Bools) -> Bools:
        """bool [row, *shape]: elements of which a byte is marked, bool [row, byte]."""
        expected = self.capture.after[name]
        bytes_of_elements = differs.reshape(len(differs), *expected.shape, expected.itemsize)
        marked: Bools = np.logical_or.reduce(bytes_of_elements, axis=-1)
        return marked


def grouped(kernel: Kernel, hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Changes of one kind at all instructions from one line of the source, and at all with one opcode."""
    groups: dict[tuple[object, str, Hashable], list[Hypothesis]] = defaultdict(list)
    for each in hypotheses:
        item = kernel.items[each.place]
        assert isinstance(item, Operation)
        opcode = item.instruction.form.opcode
        for key in (each.key, *each.other_keys):
            if item.source is not None:
                groups[item.source, opcode, key].append(each)
            if item.instruction.form.is_matrix or opcode.startswith(("ldmatrix", "shfl", "cp", "st")):
                groups[None, opcode, key].append(each)
    found: dict[object, Hypothesis] = {}
    for (source, _, _), group in groups.items():
        if len({each.place for each in group}) > 1:
            whole = together(group)
            factor = ALL_OF_LINE if source is not None else ALL_OF_OPCODE
            kind = (str(whole.key), tuple(sorted(whole.changes)), tuple(each.key for each in group))
            found.setdefault(kind, replace(whole, weight=factor * whole.weight))
    return list(found.values())
