"""Score `tcsim check` on the corpus of tests/golden/sanitizer: right kernels that are accused, mistakes that are named.

    python -m tests.golden.compare_sanitizer [--only NAME ...] [--no-reference] [--recorded] [--verbose]

A mistake is named if a finding names one of its lines (truth.json: the fault itself, the other side of a race, the
place where a barrier is missing). Notes, which cost time alone, do not count. With --no-reference the expected outputs
are left out, and with them the mistakes that nothing else shows; with --recorded the launches of
tests/golden/launches are right kernels, too. Exit status 1 if a right kernel is accused.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isa.errors import Error
from simulator.check.launch_finding import LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture import read_capture

GOLDEN = Path(__file__).parent
CORPUS = GOLDEN / "sanitizer"
CAPTURES = CORPUS / "captures"
LAUNCHES = GOLDEN / "launches"
NOT_RIGHT = {  # recorded launches that are none of the right kernels, and why
    "f16_chip": "has no data",
    "triton_attention": "initialises mbarriers that are valid without mbarrier.inval",
    "wgmma_fp8": "its metadata are random, illegal codes among them",
    "wgmma_int": "its metadata are random, illegal codes among them",
    "wgmma_n": "its metadata are random, illegal codes among them",
    "wgmma_tf32": "its metadata are random, illegal codes among them",
}
LIMIT = 60.0  # seconds of one check
VERDICTS = ("named", "elsewhere", "unplaced", "missed")
Truth = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What the check of a capture says: its serious findings, and for how many seconds it ran."""

    findings: tuple[LaunchFinding, ...]
    seconds: float


def truth() -> dict[str, Truth]:
    """Of every kernel with a mistake, by name, what is wrong with it, and where."""
    entries: dict[str, Truth] = json.loads((CORPUS / "truth.json").read_text())
    return entries


def right() -> list[Path]:
    """The captures of the corpus' right kernels."""
    wrong = truth()
    return sorted(path for path in CAPTURES.glob("*.json") if path.stem not in wrong)


def recorded() -> list[Path]:
    """The launches that were recorded on a GPU, of kernels that are right."""
    return sorted(path for path in LAUNCHES.glob("*.json") if path.stem not in NOT_RIGHT)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in a block that takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end in {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(path: Path, reference: bool = True, seconds: float = LIMIT) -> Outcome:
    """Checks a capture, with or without its expected outputs. An error of the check itself, or no end, is a finding."""
    began = time.monotonic()
    try:
        with _limited(seconds):
            return _checked(path, reference)
    except Error as error:
        found = LaunchFinding("error", 0, "", "", "", str(error), "")
    except Exception as error:  # a fault of the check itself, which must not end the comparison
        found = LaunchFinding("crash", 0, "", "", "", f"{type(error).__name__}: {error}", "")
    return Outcome((found,), time.monotonic() - began)


def _checked(path: Path, reference: bool) -> Outcome:
    began = time.monotonic()
    capture = read_capture(path)
    found = check_launch(capture if reference else replace(capture, after={})).findings
    return Outcome(tuple(each for each in found if each.serious), time.monotonic() - began)


def names(finding: LaunchFinding, entry: Truth) -> bool:
    """Whether a finding names a line that it may rightly blame."""
    lines = {finding.line, *finding.also, *([finding.other.line] if finding.other else [])}
    sources = (finding.source, finding.other.source if finding.other else "")
    wanted = {f"{entry['file']}:{line}" for line in entry["accept"]["cu"]}
    return bool(lines & set(entry["accept"]["ptx"])) or any(source in wanted for source in sources)


def verdict(findings: Sequence[LaunchFinding], entry: Truth) -> str:
    """Whether a mistake was named, another line blamed, a wrong result seen without a line, or nothing found."""
    if any(names(finding, entry) for finding in findings):
        return "named"
    if not findings:
        return "missed"
    return "elsewhere" if any(finding.line for finding in findings) else "unplaced"


def _brief(findings: Sequence[LaunchFinding]) -> str:
    said = dict.fromkeys(f"{each.rule} @ {each.source or f'line {each.line}'}" for each in findings)
    return "; ".join(list(said)[:3]) + (f"; and {len(said) - 3} more" if len(said) > 3 else "")


def _whole(findings: Sequence[LaunchFinding]) -> Iterator[str]:
    for each in findings:
        yield f"      line {each.line} ({each.source}): {each.rule}: {each.what}"
        if each.other:
            yield f"        and line {each.other.line} ({each.other.source}) {each.other.access} {each.other.where}"


def _row(file: Path | None, case: str, kind: str, said: str) -> None:
    """Adds a row to the file of verdicts, if there is one."""
    if file is not None:
        with file.open("a", newline="") as out:
            csv.writer(out).writerow((case, kind, said))


def _accused(paths: Sequence[Path], options: argparse.Namespace) -> int:
    accused = 0
    print(f"{'right kernel':26} {'s':>5}  findings")
    for path in paths:
        found = outcome(path, not options.no_reference, options.limit)
        accused += bool(found.findings)
        _row(options.csv, path.stem, "right", "accused" if found.findings else "clean")
        print(
            f"{path.stem:26} {found.seconds:5.1f}  {'FALSE: ' + _brief(found.findings) if found.findings else 'none'}"
        )
        if options.verbose:
            print("\n".join(_whole(found.findings)), end="\n" if found.findings else "")
        sys.stdout.flush()
    return accused


def _judged(wrong: Mapping[str, Truth], options: argparse.Namespace) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    print(f"\n{'bug':26} {'s':>5}  {'verdict':9}  {'kind':34}  what it says")
    for name, entry in wrong.items():
        found = outcome(CAPTURES / f"{name}.json", not options.no_reference, options.limit)
        said = verdict(found.findings, entry)
        counts[entry["kind"], said] += 1
        _row(options.csv, name, entry["kind"], said)
        needs = " (reference)" if entry["needs_reference"] else ""
        print(f"{name:26} {found.seconds:5.1f}  {said:9}  {entry['kind'] + needs:34.34}  {_brief(found.findings)}")
        if options.verbose:
            print(f"      truth: {entry['says']}, {entry['file']}: {entry['fault']['cu']}, may blame {entry['accept']}")
            print("\n".join(_whole(found.findings)), end="\n" if found.findings else "")
        sys.stdout.flush()
    return counts


def _summary(counts: Counter[tuple[str, str]], right_count: int, accused: int) -> None:
    print(f"\n{'kind of mistake':40} {'of':>3} " + " ".join(f"{each:>9}" for each in VERDICTS))
    for kind in sorted({kind for kind, _ in counts}):
        row = [counts[kind, each] for each in VERDICTS]
        print(f"{kind:40.40} {sum(row):3} " + " ".join(f"{number:9}" for number in row))
    named, elsewhere, unplaced, missed = (
        sum(n for (_, said), n in counts.items() if said == each) for each in VERDICTS
    )
    print(
        f"\nright kernels accused: {accused} of {right_count}; bugs named at the right line: {named} of "
        f"{counts.total()}, missed {missed}, wrong blame {elsewhere}, seen without a line {unplaced}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="these kernels, and the bugs made in them"
    )
    parser.add_argument("--no-reference", action="store_true", help="leave the expected outputs out")
    parser.add_argument("--recorded", action="store_true", help="also the launches that were recorded on a GPU")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one check")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each kernel: case, kind, verdict")
    parser.add_argument("--verbose", action="store_true", help="every finding, and the truth")
    options = parser.parse_args()
    if options.csv is not None:
        options.csv.write_text("case,kind,verdict\n")
    wanted, wrong = set(options.only), truth()
    paths = right() + (recorded() if options.recorded else [])
    unknown = wanted - {path.stem for path in paths} - set(wrong)
    if unknown:
        parser.error(f"no kernel {', '.join(sorted(unknown))}")
    if wanted:
        paths = [path for path in paths if path.stem in wanted]
        wrong = {name: entry for name, entry in wrong.items() if {name, entry["kernel"]} & wanted}
    if options.no_reference:
        wrong = {name: entry for name, entry in wrong.items() if not entry["needs_reference"]}
    accused = _accused(paths, options)
    _summary(_judged(wrong, options), len(paths), accused)
    return int(accused > 0)


if __name__ == "__main__":
    sys.exit(main())
