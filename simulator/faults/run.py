"""Runs a list of faults, part by part, in one process, in several, or on a Dask cluster. The CSV file of results is the
same in each case, byte for byte, however often a run was killed and begun again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, starmap
from pathlib import Path
from typing import NamedTuple

from simulator.errors import ConfigError, Error, TraceError
from simulator.faults import outcomes, table
from simulator.faults.detectors.afterwards import check_asked, look
from simulator.faults.detectors.asked import NOTHING, OF_RESULTS, Asked, from_text
from simulator.faults.groups import equip
from simulator.faults.judgement import Judgement
from simulator.faults.outcomes import Results
from simulator.faults.pieces import Pieces
from simulator.faults.results import RESULTS
from simulator.faults.sequential import Order, Until, merged, stopped_at
from simulator.faults.table import BLOCK, CHECK, COLUMNS, FaultList, Faults, write_head
from simulator.faults.targets.subjects import listed, make
from simulator.faults.targets.target import DIGEST_CHARACTERS, OLD_DIGEST_CHARACTERS, FaultTarget
from simulator.files import complete, reading
from simulator.floating_point import guarded
from simulator.parallel import worked
from simulator.parts import Parts
from simulator.progress import Progress, unseen
from simulator.version import __version__

FAULTS, JOINED = "faults", "rows of results joined"  # what progress is told of
_PARTS = 4_096  # of a list, about, if it is long
UNJUDGED = Judgement()
_made: dict[str, tuple[FaultTarget, Judgement, Asked]] = {}


def subject_of(found: FaultList, policy: str = "") -> FaultTarget:
    """The target that a list names, under the list's policy or the given one.

    Raises:
        TraceError: the head of the list lacks the target, or the operands are not those that the list was made for.
        ConfigError: a policy or a target that is none.
    """
    try:
        subject = make(str(found.path), listed(found.about["subject"]), policy or found.about["policy"])
        equip(subject, json.loads(found.about.get("groups", "[]")), str(found.path))
        digest = found.about["operands"]
    except Error:
        raise
    except (KeyError, ValueError, TypeError) as error:
        what = f"no {error.args[0]}" if isinstance(error, KeyError) else f"no subject ({error})"
        reason = f"its head has {what}"
        raise TraceError(str(found.path), 0, 0, reason, "a list that 'tcsim faults list' wrote") from None
    if len(subject.digest) == DIGEST_CHARACTERS and len(digest) == OLD_DIGEST_CHARACTERS:
        return subject  # the list was written before digests were of texts, see `target.DIGEST_CHARACTERS`
    if subject.digest != digest:
        reason = f"operands have the digest {subject.digest}, the list was made for {digest}"
        legal = f"the version that made it ({found.about.get('tcsim', '?')}); this is {__version__}"
        raise TraceError(str(found.path), 0, 0, reason, legal)
    return subject


class Ran(NamedTuple):
    """What became of a list.

    Attributes:
        resumed: faults that an earlier run had injected.
        spoilt: parts of that run that were damaged, and that were done again.
        injected: how many faults the results have; all of the list, unless it was to stop.
    """

    resumed: int
    spoilt: int
    injected: int


def run_list(
    found: FaultList, output: Path, *, policy: str = "", workers: int = 1, cluster: str = "",
    judgement: Judgement = UNJUDGED, detect: Asked = NOTHING, until: Until | None = None, progress: Progress = unseen,
) -> Ran:  # fmt: skip
    """Injects every fault of a list, or as many as are needed, and writes the results in the order of the list.

    Args:
        found: the list.
        output: the CSV file; complete, or not there.
        policy: a policy in place of the list's.
        workers: how many processes.
        cluster: the address of a Dask scheduler, or "local"; "" for none.
        judgement: which corruptions are critical.
        detect: detectors beside those of every run.
        until: when to stop before the end, see `simulator.faults.sequential`; the same faults with any number of
            workers.
        progress: called with how much is done, how much there is, and of what.

    Raises:
        TraceError: a list that cannot be read, or that is about something else.
        ConfigError: a policy that is none, a judgement that cannot be made, or an output that another process is
            writing.
        OverwriteError: the output is the list.
        OSError: a file that cannot be written.
    """
    reading(found.path, [output])
    progress(0, found.rows, FAULTS)
    subject = subject_of(found, policy)
    check_asked(detect, subject.when)
    detect = subject.prepared(detect.bounded(subject.largest))
    about, size = _about(found, subject, judgement, detect), part_rows(subject, found.rows)
    order = None if until is None else Order.of(found, until)
    note = _head(found, about | ({} if until is None else {"until": until.words}))
    parts = Parts(output, f"{note}# rows of a part: {size}\n", -(-found.rows // size), "csv")
    with parts.held():
        if parts.foreign:
            legal = "that list, policy and judgement again, or remove the folder"
            reason = f"holds parts of another run than that of {found.path.name}"
            raise TraceError(str(parts.folder), 0, 0, reason, legal)
        spoilt = parts.open()
        job = Job(found, subject, judgement, detect, parts, size, order)
        resumed = found.rows - sum(len(job.rows(number)) for number in parts.missing)
        try:
            count = job.inject(workers, cluster, progress)
        except (TraceError, ConfigError) as error:
            mended = error.path in (str(found.path), judgement.path) or error.path.startswith("fault ")
            if mended:  # before it can go on: what is there belongs to a list that will be another
                parts.remove()
            raise
        injected = sum(len(job.rows(number)) for number in range(count))
        if until is not None:
            about |= {"until": until.words, "injected": f"{injected} of {found.rows}", "faults": str(injected)}
        with complete(output) as stream:
            stream.write(_head(found, about).encode())
            for done, text in job.joined(count):
                stream.write(text)
                progress(done, injected, JOINED)
        parts.remove()
    return Ran(resumed, spoilt, injected)


def part_rows(subject: FaultTarget, rows: int) -> int:
    """How many faults of a list become a part: as few as are fast together, so that little is lost when a run is
    killed; more where there would be very many parts, up to what takes the target a few seconds. It depends on the list
    alone, so that another run finds them."""
    return min(subject.most, max(subject.batch, min(BLOCK, -(-rows // _PARTS))))


@dataclass(frozen=True)
class Job:
    """A list that is run in parts.

    Attributes:
        found, subject, judgement, detect: the list, its target, what is critical, and further detectors.
        parts, size: the parts on disk, and how many faults one has.
        order: the random order of the faults, where it is stopped before the end; None for that of the list.
    """

    found: FaultList
    subject: FaultTarget
    judgement: Judgement
    detect: Asked
    parts: Parts
    size: int
    order: Order | None

    def rows(self, number: int) -> range:
        """The places of a part's faults in the order in which they are injected."""
        return range(number * self.size, min((number + 1) * self.size, self.found.rows))

    def inject(self, workers: int, cluster: str, progress: Progress) -> int:
        """Injects the faults whose parts are missing; returns how many parts make up the results."""
        missing = self.parts.missing
        before = self.found.rows - sum(len(self.rows(number)) for number in missing)
        pieces = Pieces(self.parts, self.subject.by_itself, before)

        def tell() -> None:
            progress(pieces.done, self.found.rows, FAULTS)

        tell()
        count = self._stopped()
        if count is not None:
            return count
        about = self.found.about["subject"], self.subject.policy, self.found.about.get("groups", "[]")
        looks = self.judgement.as_text(), self.detect.as_text()
        key = json.dumps([*about, str(self.found.path), *looks, _kept(self.found)])
        # for this process, and for those that are forked from it
        _made[key] = self.subject, self.judgement, self.detect
        tasks = chain.from_iterable(starmap(pieces.tasks, self._faults(missing)))
        most = self.found.rows if self.subject.when else len(missing)
        with closing(worked(work, key, tasks, workers, cluster, most, tell)) as results:
            for task, text in results:
                pieces.take(task, text)
                tell()
                count = self._stopped()
                if count is not None:
                    return count
        return self.parts.count

    def _stopped(self) -> int | None:
        """After how many parts the run stops, if they are there and it does."""
        return None if self.order is None else stopped_at(self.order, self.parts)

    def _faults(self, missing: list[int]) -> Iterator[tuple[int, Faults]]:
        """The faults of the parts, with their numbers."""
        if self.order is not None:
            for number in missing:
                yield number, self.order.read(self.rows(number))
            return
        pieces = table.read_pieces(self.found, ((part.start, part.stop) for part in map(self.rows, missing)))
        for first, faults in pieces:
            yield first // self.size, faults

    def joined(self, count: int) -> Iterator[tuple[int, bytes]]:
        """The lines of the results in the order of the list, with how many rows they are the end of."""
        if self.order is not None:
            yield from merged(self.order, self.parts, count, self.size)
            return
        for number, text in enumerate(self.parts.lines()):
            yield self.rows(number).stop, text


def joined(faults: Faults, results: Results, columns: Sequence[str] = COLUMNS) -> str:
    """Rows of results, each of them the fault, with these columns, followed by its outcome."""
    return "".join(
        f"{fault},{result.split(',', 1)[1]}\n"
        for fault, result in zip(table.texts(faults, columns), outcomes.texts(results), strict=True)
    )


def _about(faults: FaultList, subject: FaultTarget, judgement: Judgement, detect: Asked) -> dict[str, str]:
    """What the head of the file of results says."""
    about = {
        **faults.about,
        "tcsim": __version__,
        "policy": subject.policy,
        "list": faults.path.name,
        "list_sha256": _digest(faults.path),
        **judgement.about(),
        **detect.about(),
    }
    with detect.detecting():
        alarms = subject.false_alarms()
    if alarms is not None:
        about["abft_false_alarms"] = f"{alarms.failed} of {alarms.products}"
    fresh = subject.fresh() if set(OF_RESULTS) & set(detect.names) else None
    if fresh is not None:
        seen = detect.sees(fresh)
        about |= {f"{name}_false_alarms": f"{int(mask.sum())} of {len(mask)}" for name, mask in seen.items()}
    return about


def _head(faults: FaultList, about: dict[str, str]) -> str:
    """The first lines of the file of results."""
    return write_head(about, RESULTS, (*_kept(faults), *outcomes.COLUMNS))


def _kept(faults: FaultList) -> list[str]:
    """The columns of a list that its results repeat."""
    return [name for name in faults.columns if name != CHECK]


def _digest(path: Path) -> str:
    """A short SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


@guarded
def work(key: str, faults: Faults) -> bytes:
    """The results of one block as text; the target is made once in each process."""
    if key not in _made:
        values, policy, groups, path, judged, looks, _ = json.loads(key)
        subject = make("a list", listed(values), policy)
        equip(subject, json.loads(groups), path)
        _made[key] = subject, Judgement(**json.loads(judged)), from_text(looks)
    subject, judgement, detect = _made[key]
    with judgement.judging(), detect.detecting():
        results = subject.run(faults)
        if detect.names:
            look(subject, faults, results, detect)
    judgement.judge(results)
    return joined(faults, results, json.loads(key)[-1]).encode()
