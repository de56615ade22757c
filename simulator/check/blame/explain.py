"""Which mistake explains a wrong result: chooses the CTAs that are run again, makes the hypotheses, tries and confirms
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.check.blame.addresses import address_hypotheses
from simulator.check.blame.arena import Arena, Changes
from simulator.check.blame.change import Hypothesis, executor_of
from simulator.check.blame.constants import constant_hypotheses
from simulator.check.blame.metadata import metadata_registers
from simulator.check.blame.names import KNOWN, names_of
from simulator.check.blame.operands import operand_hypotheses
from simulator.check.blame.pattern import MOST_WEIGHT, Pattern
from simulator.check.blame.products import product_hypotheses, scales_exchanged
from simulator.check.blame.registers import register_hypotheses
from simulator.check.blame.search import PARTIAL, SECONDS, Evidence, Outcome, Search, grouped
from simulator.check.blame.sequences import disturbed, left_out, orders_others, sequence_hypotheses
from simulator.check.blame.timer import Timer
from simulator.check.expected import output_arrays, wrong_elements
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup, batches, may_part, starting
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.interpreter import prepared, step_of
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.meetings import mask_of
from simulator.simulation.launch.run import Run

MOST_RAN = 20_000_000  # warp instructions of a launch that is run again as a whole to confirm an answer
ROWS = 1024  # warps that all copies have together at most
COPIES = 128  # at most
MEMORY = 1 << 27  # bytes of the buffers of all copies at most
WHOLE_ROWS = 4  # warps of a launch of which each copy runs all CTAs
LONG_KERNEL, FEW_KNOWN = 300, 12  # instructions; registers written before that may be meant in longer kernels
METADATA = 1.5  # how much likelier a mistake of a constant or address is where metadata comes from
SURE = 0.3  # weight from which on an answer is believed without a look at instructions that seem to feed nothing
EARLY = 0.7  # weight from which on a hypothesis is tried before anybody has looked what feeds wrong elements
EARLY_TIME, FEED_TIME = 0.4, 0.4  # share of the time that is left that this takes at most, and that look
MOST_CTAS = 4  # that write the same elements and are run together
SAMPLED = 64  # CTAs of which it is found out what they write


@dataclass(frozen=True)
class Explanation:
    """What a wrong result comes from.

    Attributes:
        answers: hypotheses that make all elements right, the likeliest first.
        partial: one that makes most of them right; None if there are answers, or there is none.
        slice: without answers, the instructions that feed wrong elements alone, if these are few.
        evidence: by place, which elements an instruction feeds.
        tried: how many hypotheses.
    """

    answers: tuple[Hypothesis, ...]
    partial: Outcome | None
    slice: tuple[Operation, ...]
    evidence: Mapping[int, Evidence]


def explain(
    capture: Capture, setup: Setup, options: Options, rtol: float = 0.0, atol: float = 0.0, seconds: float = SECONDS
) -> Explanation:
    """Looks for the mistake.

    Args:
        setup: the launch after it has run; its kernel is linked with `allocate=False`.
    """
    timer = Timer()
    kernel = setup.kernel

    search = _search(capture, setup, options, rtol, atol, timer, seconds)
    if search is None:
        return Explanation((), None, (), {})
    operations = [item for item in kernel.items if isinstance(item, Operation)]
    work = [item for item in operations if item.index in search.executed and not orders_others(item)]
    pattern = Pattern(kernel)
    metadata = metadata_registers(operations)
    plain = list(_singles(kernel, work, operations, metadata))
    singles = [pattern.weighted(each) for each in plain]
    products = [pattern.weighted(each) for each in product_hypotheses(kernel, work)]
    groups = grouped(kernel, [each for each in plain if each.weight >= EARLY])
    early = [each for each in (*singles, *products, *groups) if each.weight >= EARLY]
    search.try_early(early, timer.spent + EARLY_TIME * (seconds - timer.spent))
    if not search.found:
        _search_all(search, work, plain, [*singles, *products], timer, seconds)
    answers = search.answers()
    best = search.best
    partial = None
    if best is not None and not answers and 0 < best.left <= PARTIAL * search.wrong and search.alone(best):
        partial = best
    elements = sum(int(each.sum()) for each in search.owned.values())
    slice_ = _slice(kernel, search.evidence) if search.wrong <= SLICED * elements else ()
    return Explanation(tuple(answers), partial, slice_, search.evidence)


def _search_all(
    search: Search,
    work: Sequence[Operation],
    plain: Sequence[Hypothesis],
    weighted: Sequence[Hypothesis],
    timer: Timer,
    seconds: float,
) -> None:
    """Finds out which elements instructions feed, and tries all hypotheses: those about what feeds wrong elements
    first.

    Args:
        plain: hypotheses about single instructions, of which groups are made: all of them together keep to a pattern.
        weighted: those that are tried, with weights that heed the pattern.
    """
    half = timer.spent + FEED_TIME * (seconds - timer.spent)
    search.feed([left_out(item, ()) for item in work], half)
    unfed = [item for item in work if item.writes and search.feeds_little(item.index)]
    search.feed([disturbed(item) for item in unfed], half)
    groups = grouped(search.kernel, [each for each in plain if search.feeds(each.place)])
    search.try_all([*(each for each in weighted if search.feeds(each.place)), *groups])
    if all(each.hypothesis.weight < SURE for each in search.found):
        search.try_all([each for each in weighted if not search.feeds(each.place)])


def _fresh(capture: Capture, setup: Setup, options: Options) -> Setup:
    """The launch before it has run."""
    memory = place(capture).memory
    fresh = prepare(setup.kernel, capture.grid, capture.block, memory, setup.params, options)
    return replace(fresh, completion=None)


def _search(
    capture: Capture, setup: Setup, options: Options, rtol: float, atol: float, timer: Timer, seconds: float
) -> Search | None:
    """The arena with some CTAs that hold wrong elements, and what they leave as it is."""
    initial = _fresh(capture, setup, options)
    written = list(capture.after)
    written += [each.name for each in setup.memory.buffers if each.name not in written
                and each.name in {other.name for other in initial.memory.buffers}
                and not np.array_equal(each.data, initial.memory[each.name].data)]  # fmt: skip
    geometry = initial.geometry
    size = int(np.prod(geometry.cluster))
    every = np.arange(geometry.ctas)
    whole = not may_part(initial.kernel) or geometry.ctas * geometry.warps <= WHOLE_ROWS
    ctas = every if whole else _wrong_ctas(capture, initial, written, rtol, atol)
    if ctas is None:
        whole, ctas = True, every
    if size > 1:
        ctas = geometry.whole_clusters(ctas)
    rows = len(ctas) * geometry.warps
    if rows > ROWS:
        return None
    room = sum(initial.memory[name].size for name in written) * 3 + 1
    copies = int(np.clip(min(ROWS // rows, MEMORY // room), 1, COPIES))
    arena = Arena(initial, ctas, written, copies)
    results = arena.run([{}] * min(2, copies))
    if copies > 1 and not _alike(results.data, whole, setup):
        arena = Arena(initial, ctas, written, 1)
        results = arena.run([{}])
    arena.most = max(arena.items * 5 // 4, 2 * len(initial.kernel.items)) + 200
    executed = frozenset(arena.executed)
    base = {name: results.data[name][0] for name in capture.after}
    before = {name: initial.memory[name].data.copy() for name in capture.after}
    owned = owned_elements(capture, arena, {name: rows[:1] for name, rows in results.data.items()}, None)

    def confirmed(changes: Changes) -> int:
        return mends(capture, setup, options, changes, rtol, atol)

    owned_here = {name: each[0] for name, each in owned.items()}
    return Search(
        capture, initial.kernel, arena, base, before, rtol, atol, owned_here, whole, timer, seconds, confirmed, executed
    )


def owned_elements(
    capture: Capture, arena: Arena, results: Mapping[str, NDArray[np.uint8]], ctas: NDArray[np.int64] | None
) -> dict[str, NDArray[np.bool_]]:
    """By buffer, bool [trial, *shape]: the elements that CTAs write: those that are not what they were, or would not be
    if the buffers had begun with the opposite bits.

    Args:
        results: what they leave, uint8 [trial, byte].
        ctas: int64 [trial, CTA], or None: those of the arena.
    """
    count = len(next(iter(results.values())))
    arena.turned = True
    turned = arena.run([{}] * count, ctas).data
    arena.turned = False
    found = {}
    for name, expected in capture.after.items():
        initial = arena.setup.memory[name].data
        changed = (results[name] != initial) | (turned[name] != ~initial)
        found[name] = changed.reshape(count, *expected.shape, expected.itemsize).any(axis=-1)
    return found


def _alike(data: Mapping[str, NDArray[np.uint8]], whole: bool, setup: Setup) -> bool:
    """Whether copies give the same, and what the launch gives."""
    same = all(np.array_equal(rows[0], rows[-1]) for rows in data.values())
    return same and (not whole or all(np.array_equal(rows[0], setup.memory[name].data) for name, rows in data.items()))


def _wrong_ctas(
    capture: Capture, initial: Setup, written: list[str], rtol: float, atol: float
) -> NDArray[np.int64] | None:
    """The CTA that writes most wrong elements, of those that are looked at, and others that write some of these, too.
    None: none writes any."""
    count = initial.geometry.ctas
    ctas = np.unique(np.linspace(0, count - 1, min(SAMPLED, count)).astype(np.int64))
    room = sum(initial.memory[name].size for name in written) * 3 + 1
    copies = int(np.clip(min(ROWS // initial.geometry.warps, MEMORY // room), 1, len(ctas)))
    arena = Arena(initial, ctas[:1], written, max(copies, 2))
    found: list[tuple[int, int, dict[str, NDArray[np.bool_]]]] = []
    for first in range(0, len(ctas), arena.copies):
        part = ctas[first : first + arena.copies, None]
        results = arena.run([{}] * len(part), part).data
        owned = owned_elements(capture, arena, {name: rows[: len(part)] for name, rows in results.items()}, part)
        for number, cta in enumerate(part[:, 0].tolist()):
            arrays = {
                name: results[name][number].view(each.dtype).reshape(each.shape) for name, each in capture.after.items()
            }
            wrong = wrong_elements(arrays, capture.after, rtol, atol)
            own = {name: each & owned[name][number] for name, each in wrong.items()}
            count = sum(int(each.sum()) for each in own.values())
            if count:
                found.append((count, cta, own))
    if not found:
        return None
    _, chosen, mask = max(found, key=lambda entry: entry[0])
    others = [cta for _, cta, own in found if cta != chosen and any((own[name] & mask[name]).any() for name in mask)]
    return np.sort(np.array([chosen, *others[: MOST_CTAS - 1]]))


def _singles(
    kernel: Kernel, work: list[Operation], operations: list[Operation], metadata: Set[str]
) -> Iterator[Hypothesis]:
    """The hypotheses about single instructions; likelier ones about where metadata is loaded from, and its codes."""
    names = names_of(kernel, FEW_KNOWN if len(work) > LONG_KERNEL else KNOWN)
    writers = Counter(name for item in operations for name in item.writes)
    once = {name for name, count in writers.items() if count == 1}
    by_opcode: dict[str, list[Operation]] = {}
    for item in operations:
        by_opcode.setdefault(item.instruction.form.opcode, []).append(item)
    for item in work:
        own = by_opcode[item.instruction.form.opcode]
        alike = sorted((each for each in own if each is not item), key=lambda each: abs(each.index - item.index))
        yield left_out(item, once)
        yield from operand_hypotheses(kernel, item, alike)
        likelier = METADATA if metadata & set(item.writes) else 1.0
        for each in (*constant_hypotheses(item, names), *address_hypotheses(kernel, item, names)):
            yield each if likelier == 1.0 else replace(each, weight=min(likelier * each.weight, MOST_WEIGHT))
        yield from register_hypotheses(kernel, item, names)
        yield from sequence_hypotheses(kernel, item, names)
        yield from scales_exchanged(item)


def mends(
    capture: Capture, setup: Setup, options: Options, changes: Changes, rtol: float = 0.0, atol: float = 0.0
) -> int:
    """The warp instructions of the launch as a whole with these changes; 0 if it meets an error, or does not give what
    is expected."""
    fresh = _fresh(capture, setup, options)
    code = prepared(fresh.kernel)
    for index, actions in changes.items():
        item = fresh.kernel.items[index]
        assert isinstance(item, Operation)
        code.steps[index] = step_of(item, executor_of(actions, item.instruction, guarded=True))
        if index in code.meets:
            code.meets[index] = executor_of(actions, item.instruction, guarded=mask_of(item) is None)
    work = 0
    try:
        for ctas, unstarted in starting(fresh, batches(fresh)):
            run = Run(code, fresh.state(ctas, unstarted=unstarted), MOST_RAN)
            run.run()
            work += sum(run.counts)
    except Error:
        return 0
    wrong = wrong_elements(output_arrays(capture, fresh.memory), capture.after, rtol, atol)
    return 0 if any(each.any() for each in wrong.values()) else work


SLICED = 2 / 3  # share of the elements that may be wrong where those that an instruction feeds tell anything
MOST_LINES = 4  # of a slice
COVERS, SHARE = 0.99, 0.95  # of the wrong elements that an instruction of a slice feeds; and wrong ones of all


def _slice(kernel: Kernel, evidence: Mapping[int, Evidence]) -> tuple[Operation, ...]:
    """The instructions that feed all wrong elements and hardly any others, if these are of four lines at most; else
    none: where most of a kernel feeds what is wrong, no line is more suspect than others."""
    found: dict[int, Operation] = {}
    for index, each in sorted(evidence.items()):
        item = kernel.items[index] if index >= 0 else None
        if isinstance(item, Operation) and each.covers >= COVERS and each.share >= SHARE:
            found.setdefault(item.line, item)
    return tuple(found.values()) if len(found) <= MOST_LINES else ()
