"""Runs a list of faults, part by part, in one process, in several, or on a Dask cluster. The CSV file of results is the
same in each case, byte for byte, however often a run was killed and begun again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simulator.errors import Error, TraceError
from simulator.faults import outcomes, table
from simulator.faults.groups import equip
from simulator.faults.outcomes import Results
from simulator.faults.results import RESULTS
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
_subjects: dict[str, FaultTarget] = {}


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
    """

    resumed: int
    spoilt: int


def run_list(
    found: FaultList, output: Path, *, policy: str = "", workers: int = 1, cluster: str = "",
    progress: Progress = unseen,
) -> Ran:  # fmt: skip
    """Injects every fault of a list and writes the results.

    Args:
        found: the list.
        output: the CSV file; complete, or not there.
        policy: a policy in place of the list's.
        workers: how many processes.
        cluster: the address of a Dask scheduler, or "local"; "" for none.
        progress: called with how much is done, how much there is, and of what.

    Raises:
        TraceError: a list that cannot be read, or that is about something else.
        ConfigError: a policy that is none, or an output that another process is writing.
        OverwriteError: the output is the list.
        OSError: a file that cannot be written.
    """
    reading(found.path, [output])
    progress(0, found.rows, FAULTS)
    subject = subject_of(found, policy)
    head, size = _head(found, subject), part_rows(subject, found.rows)
    parts = Parts(output, f"{head}# rows of a part: {size}\n", -(-found.rows // size), "csv")
    with parts.held():
        if parts.foreign:
            legal = "that list and policy again, or remove the folder"
            reason = f"holds parts of another run than that of {found.path.name}"
            raise TraceError(str(parts.folder), 0, 0, reason, legal)
        spoilt = parts.open()
        resumed = found.rows - sum(len(_rows(number, size, found.rows)) for number in parts.missing)
        try:
            _inject(found, subject, parts, size, worked_by=(workers, cluster), progress=progress)
        except TraceError as error:
            if error.path == str(found.path):  # a list that is none: there is nothing to go on with
                parts.remove()
            raise
        with complete(output) as stream:
            stream.write(head.encode())
            for number, text in enumerate(parts.lines()):
                stream.write(text)
                progress(_rows(number, size, found.rows).stop, found.rows, JOINED)
        parts.remove()
    return Ran(resumed, spoilt)


def part_rows(subject: FaultTarget, rows: int) -> int:
    """How many faults of a list become a part: as few as are fast together, so that little is lost when a run is
    killed; more where there would be very many parts. It depends on the list alone, so that another run finds them."""
    return max(subject.batch, min(BLOCK, -(-rows // _PARTS)))


def _rows(number: int, size: int, rows: int) -> range:
    """The rows of a part."""
    return range(number * size, min((number + 1) * size, rows))


def _inject(
    found: FaultList, subject: FaultTarget, parts: Parts, size: int, *, worked_by: tuple[int, str], progress: Progress
) -> None:
    """Injects the faults whose parts are missing."""
    missing = [_rows(number, size, found.rows) for number in parts.missing]
    done = found.rows - sum(map(len, missing))

    def tell() -> None:
        progress(done, found.rows, FAULTS)

    tell()
    pieces = table.read_pieces(found, ((rows.start, rows.stop) for rows in missing))
    tasks = ((first // size, faults) for first, faults in pieces)
    columns = [name for name in found.columns if name != CHECK]
    groups = found.about.get("groups", "[]")
    key = json.dumps([found.about["subject"], subject.policy, groups, str(found.path), columns])
    for number, text in worked(work, key, tasks, *worked_by, len(missing), tell):
        parts.keep(number, text)
        done += len(_rows(number, size, found.rows))
        tell()


def joined(faults: Faults, results: Results, columns: Sequence[str] = COLUMNS) -> str:
    """Rows of results, each of them the fault, with these columns, followed by its outcome."""
    return "".join(
        f"{fault},{result.split(',', 1)[1]}\n"
        for fault, result in zip(table.texts(faults, columns), outcomes.texts(results), strict=True)
    )


def _head(faults: FaultList, subject: FaultTarget) -> str:
    """The first lines of the file of results."""
    about = {
        **faults.about,
        "tcsim": __version__,
        "policy": subject.policy,
        "list": faults.path.name,
        "list_sha256": _digest(faults.path),
    }
    alarms = subject.false_alarms()
    if alarms is not None:
        about["abft_false_alarms"] = f"{alarms.failed} of {alarms.products}"
    columns = [name for name in faults.columns if name != CHECK]
    return write_head(about, RESULTS, (*columns, *outcomes.COLUMNS))


def _digest(path: Path) -> str:
    """A short SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


@guarded
def work(key: str, faults: Faults) -> bytes:
    """The results of one block as text; the target is made once in each process."""
    if key not in _subjects:
        values, policy, groups, path, _ = json.loads(key)
        _subjects[key] = make("a list", listed(values), policy)
        equip(_subjects[key], json.loads(groups), path)
    return joined(faults, _subjects[key].run(faults), json.loads(key)[-1]).encode()
