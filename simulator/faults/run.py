"""Runs a list of faults, block by block, in one process, in several, or on a Dask cluster. The CSV file of results is
the same in each case, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from simulator.errors import ConfigError, TraceError
from simulator.faults import outcomes, table
from simulator.faults.outcomes import Results
from simulator.faults.results import RESULTS
from simulator.faults.subjects import make
from simulator.faults.table import BLOCK, FaultList, Faults, write_head
from simulator.faults.target import DIGEST_CHARACTERS, OLD_DIGEST_CHARACTERS, FaultTarget
from simulator.files import complete
from simulator.parallel import worked
from simulator.parts import Parts
from simulator.version import __version__

Progress = Callable[[int, int], None]
_subjects: dict[str, FaultTarget] = {}


def subject_of(found: FaultList, policy: str = "") -> FaultTarget:
    """The target that a list names, under the list's policy or the given one.

    Raises:
        TraceError: the head of the list lacks the target, or the operands are not those that the list was made for.
    """
    try:
        subject = make(str(found.path), json.loads(found.about["subject"]), policy or found.about["policy"])
        digest = found.about["operands"]
    except ConfigError:
        raise
    except (KeyError, ValueError, TypeError) as error:
        reason = f"its head has no subject ({error})"
        raise TraceError(str(found.path), 0, 0, reason, "a list that 'tcsim faults list' wrote") from None
    if len(subject.digest) == DIGEST_CHARACTERS and len(digest) == OLD_DIGEST_CHARACTERS:
        return subject  # the list was written before digests were of texts, see `target.DIGEST_CHARACTERS`
    if subject.digest != digest:
        reason = f"operands have the digest {subject.digest}, the list was made for {digest}"
        legal = f"the version that made it ({found.about.get('tcsim', '?')}); this is {__version__}"
        raise TraceError(str(found.path), 0, 0, reason, legal)
    return subject


def run_list(
    found: FaultList, output: Path, *, policy: str = "", workers: int = 1, cluster: str = "",
    progress: Progress = lambda done, count: None,
) -> None:  # fmt: skip
    """Injects every fault of a list and writes the results.

    Args:
        found: the list.
        output: the CSV file; complete, or not there.
        policy: a policy in place of the list's.
        workers: how many processes.
        cluster: the address of a Dask scheduler, or "local"; "" for none.
        progress: called with how many faults are done, and how many there are.

    Raises:
        TraceError: a list that cannot be read, or that is about something else.
        OSError: a file that cannot be written.
    """
    subject = subject_of(found, policy)
    parts = Parts(output, _head(found, subject), -(-found.rows // BLOCK), "csv")
    if parts.foreign:
        legal = "that list and policy again, or remove the folder"
        reason = f"holds parts of another run than that of {found.path.name}"
        raise TraceError(str(parts.folder), 0, 0, reason, legal)
    parts.open()
    missing = parts.missing
    done = parts.count - len(missing)
    progress(done * BLOCK, found.rows)
    pieces = ((number * BLOCK, min((number + 1) * BLOCK, found.rows)) for number in missing)
    tasks = ((first // BLOCK, rows) for first, rows in table.read_pieces(found, pieces))
    key = json.dumps([found.about["subject"], subject.policy])
    try:
        for number, text in worked(work, key, tasks, workers, cluster, len(missing)):
            parts.keep(number, text)
            done += 1
            progress(min(done * BLOCK, found.rows), found.rows)
    except TraceError:  # a list that is none: there is nothing to go on with
        parts.remove()
        raise
    with complete(output) as stream:
        stream.write(parts.note.encode())
        for text in parts.lines():
            stream.write(text)
    parts.remove()


def joined(faults: Faults, results: Results) -> str:
    """Rows of results, each of them the fault followed by its outcome."""
    return "".join(
        f"{fault},{result.split(',', 1)[1]}\n"
        for fault, result in zip(table.texts(faults), outcomes.texts(results), strict=True)
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
    return write_head(about, RESULTS)


def _digest(path: Path) -> str:
    """A short SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def work(key: str, faults: Faults) -> bytes:
    """The results of one block as text; the target is made once in each process."""
    if key not in _subjects:
        values, policy = json.loads(key)
        _subjects[key] = make("a list", json.loads(values), policy)
    return joined(faults, _subjects[key].run(faults)).encode()
