"""Runs the corpus of tests/golden/sanitizer on a GPU: alone, and under each tool of compute-sanitizer.

    python3 measurements/sanitizer/compare.py --output FOLDER [--only NAME ...] [--jobs 8] [--timeout 30]

Writes FOLDER/compute_sanitizer.csv: a row for each case and tool ("none": without one), with how many findings the tool
counts, what the first one says, the lines of the case's source that it names, and whether one of them is a line that
truth.json accepts. Rows are written as they come, so that a run that is cut short keeps them. Ends with a table.
Needs ptxas, compute-sanitizer, numpy.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "golden" / "sanitizer"
RUNNER = Path(__file__).with_name("run_capture.py")
NONE, TOOLS = "none", ("memcheck", "racecheck", "synccheck", "initcheck")
WANTED = {  # options that help a tool, given if this version has them
    "memcheck": {"--padding": "512"},
    "racecheck": {"--racecheck-report": "all", "--racecheck-memcpy-async": "yes"},
}
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards? displayed)")
_FINDING = re.compile(
    r"^========= (?!\s)(?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|Target application|Saved)(.+)$", re.M
)
_PORT, _PORTS = 49200, 16  # each process has ports of its own


@dataclass(frozen=True)
class Row:
    """What one tool says of one case.

    Attributes:
        case, kind: its name; the kind of mistake, "right" for none.
        tool: of compute-sanitizer, or "none".
        status: of the launch, as in run_capture.py, or "killed" if the whole did not end in time.
        findings: as the tool counts them.
        first: the first one, in its words.
        lines: of the source, that its findings name.
        verdict: of a case with a mistake "named", "elsewhere", "unplaced" (no line) or "missed", of a right one
            "clean" or "accused"; "" for tool "none".
        seconds: of the whole run.
    """

    case: str
    kind: str
    tool: str
    status: str
    findings: int
    first: str
    lines: str
    verdict: str
    seconds: float


def _options(tool: str, known: str, slot: int) -> list[str]:
    wanted = {**WANTED.get(tool, {}), "--base-port": str(_PORT + _PORTS * slot), "--print-limit": "40"}
    return [text for name, value in wanted.items() if name in known for text in (name, value)]


def _run(command: list[str], timeout: float) -> tuple[str, bool]:
    """What a command prints, and whether it had to be killed, with all that it started."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    try:
        return process.communicate(timeout=timeout)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            return process.communicate(timeout=10)[0], True
        except subprocess.TimeoutExpired:
            return "", True


def _verdict(entry: dict[str, Any] | None, findings: int, lines: list[int]) -> str:
    if entry is None:
        return "accused" if findings else "clean"
    if set(lines) & set(entry["accept"]["cu"]):
        return "named"
    if not findings:
        return "missed"
    return "elsewhere" if lines else "unplaced"


class Comparison:
    """The cases, what is known of them, and the rows so far."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.truth: dict[str, Any] = json.loads((CORPUS / "truth.json").read_text())
        self.rows: list[Row] = []
        self.lock = threading.Lock()
        self.slots: queue.Queue[int] = queue.Queue()
        for slot in range(options.jobs):
            self.slots.put(slot)
        self.known = subprocess.run(["compute-sanitizer", "--help"], capture_output=True, text=True, check=False).stdout
        options.output.mkdir(parents=True, exist_ok=True)
        self.file = (options.output / "compute_sanitizer.csv").open("w", newline="")
        self.writer = csv.DictWriter(self.file, [field.name for field in fields(Row)])
        self.writer.writeheader()

    def assemble(self, path: Path) -> str:
        """Makes the cubin of a case; what ptxas complains of."""
        sys.path.insert(0, str(RUNNER.parent))
        runner = importlib.import_module("run_capture")
        capture = json.loads(path.read_text())
        arch = runner.target(capture, self.options.capability)
        if arch is None:
            return ""
        return str(runner.assemble(path.parent / capture["ptx"], arch, self.folder / f"{path.stem}.cubin"))

    def case(self, path: Path, tool: str) -> None:
        """Runs a case under a tool and writes its row."""
        cubin, slot, began = self.folder / f"{path.stem}.cubin", self.slots.get(), time.monotonic()
        entry = self.truth.get(path.stem)
        kind = entry["kind"] if entry else "right"
        try:
            if not cubin.exists():
                row = Row(path.stem, kind, tool, "skipped", 0, "", "", "", 0.0)
            else:
                command = [sys.executable, str(RUNNER), str(path), "--cubin", str(cubin)]
                command += ["--seconds", str(self.options.timeout / 3)]
                if tool != NONE:
                    command = ["compute-sanitizer", "--tool", tool, *_options(tool, self.known, slot), *command]
                text, killed = _run(command, self.options.timeout)
                row = self._row(path, kind, tool, text, killed, time.monotonic() - began)
        finally:
            self.slots.put(slot)
        with self.lock:
            self.rows.append(row)
            self.writer.writerow(asdict(row))
            self.file.flush()

    def _row(self, path: Path, kind: str, tool: str, text: str, killed: bool, seconds: float) -> Row:
        entry = self.truth.get(path.stem)
        status = re.search(r'"status": "(\w+)"', text)
        words = re.search(r'"words": "([^"]*)"', text)
        said = "killed" if killed and not status else status[1] if status else "error"
        if tool == NONE:
            first = words[1] if words else text[-120:].replace("\n", " ")
            return Row(path.stem, kind, tool, said, 0, first, "", "", round(seconds, 1))
        counted = [int(number) for number in _SUMMARY.findall(text)]
        found = _FINDING.findall(text)
        # a sanitizer that is killed sums nothing up
        findings = max(counted) if counted else len(found)
        lines = sorted({int(n) for n in re.findall(rf"\b{re.escape(path.stem)}\.cu:(\d+)", text)})
        verdict = _verdict(entry, findings, lines)
        shown = ";".join(map(str, lines[:12]))
        return Row(
            path.stem, kind, tool, said, findings, found[0][:160] if found else "", shown, verdict, round(seconds, 1)
        )

    def table(self) -> str:
        """Of each tool what it makes of the cases."""
        lines = []
        for tool in (NONE, *TOOLS):
            rows = [row for row in self.rows if row.tool == tool]
            what = Counter(row.status if tool == NONE else row.verdict or row.status for row in rows)
            lines.append(f"{tool:10} " + ", ".join(f"{name} {count}" for name, count in sorted(what.items())))
        by = {row.case for row in self.rows if row.verdict == "named"}
        lines.append(f"named by one of the four tools: {len(by)} of {len(self.truth)}")
        return "\n".join(lines)


def _capability() -> int:
    done = subprocess.run([sys.executable, str(RUNNER), "--capability"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: no GPU: {done.stderr.strip()[-300:]}")
    return int(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=TOOLS)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=30, help="seconds for one case under one tool")
    options = parser.parse_args()
    options.capability = _capability()
    paths = sorted(
        path for path in (CORPUS / "captures").glob("*.json") if not options.only or path.stem in options.only
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        comparison = Comparison(options, Path(folder))
        for path, problem in zip(paths, pool.map(comparison.assemble, paths), strict=True):
            if problem:
                print(f"{path.stem}: {problem}", flush=True)
        for tool in (NONE, *options.tools):
            list(pool.map(lambda path: comparison.case(path, tool), paths))  # noqa: B023
            print(f"{tool}: {time.monotonic() - began:.0f} s", flush=True)
        comparison.file.close()
        for row in comparison.rows:
            if row.tool == NONE and row.status not in ("equal", "skipped") and row.kind == "right":
                print(f"RIGHT KERNEL {row.case}: {row.status} {row.first}")
        print(comparison.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
