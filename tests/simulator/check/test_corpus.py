"""The corpus that judges the sanitizer: no right kernel is accused, and what is stored is what its sources say."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from simulator.program.capture import read_capture
from tests.golden.compare_sanitizer import CAPTURES, outcome, recorded, right, truth
from tests.golden.sanitizer.case import Case, bugs, lines_of, mutated, reports
from tests.golden.sanitizer.cases import CASES
from tests.golden.sanitizer.make import DOCUMENT, document, ptx_lines
from tests.support.cases import over


def _stem(path: Path) -> str:
    return path.stem


@over("path", right(), ids=_stem)
def test_right_kernels_are_not_accused(path: Path) -> None:
    found = outcome(path).findings
    assert not found, [f"{each.rule} at line {each.line} ({each.source})" for each in found]


@over("path", recorded(), ids=_stem, distinct=lambda path: path.stem.split("_")[0])
def test_recorded_launches_are_not_accused(path: Path) -> None:
    found = outcome(path).findings
    assert not found, [f"{each.rule} at line {each.line} ({each.source})" for each in found]


@over("case", CASES, ids=lambda case: case.name)
def test_expected_outputs_are_those_of_numpy(case: Case) -> None:
    launch = case.data(np.random.default_rng(zlib.crc32(case.name.encode())))
    capture = read_capture(CAPTURES / f"{case.name}.json")
    assert set(capture.after) == set(launch.after)
    for name, array in launch.after.items():
        assert np.array_equal(capture.after[name], array), name


@over("name", truth())
def test_truth_names_the_lines_of_the_sources(name: str) -> None:
    entry, bug = truth()[name], next(bug for bug in bugs() if bug.name == name)
    case = next(case for case in CASES if case.name == bug.kernel)
    source, ptx = mutated(case.source, bug.edits), (CAPTURES / f"{name}.ptx").read_text()
    accept = lines_of(source, (*bug.edits, *bug.accept))
    assert entry["accept"] == {"cu": accept, "ptx": ptx_lines(ptx, name, accept)}
    assert entry["accept"]["ptx"]
    assert json.loads((CAPTURES / f"{name}.json").read_text())["data"] == f"{case.name}.npz"
    assert ptx != (CAPTURES / f"{case.name}.ptx").read_text().replace(case.name, name)


def test_the_corpus_is_as_large_as_it_must_be_and_documented() -> None:
    assert set(truth()) == {bug.name for bug in bugs()}
    assert {path.stem for path in right()} == {case.name for case in CASES}
    assert len(right()) >= 40
    assert len(truth()) >= 60
    assert len({bug.report for bug in bugs() if bug.report}) == len(reports()) >= 20
    assert DOCUMENT.read_text() == document()
