"""The lessons as a package: the verb that lists and copies them, the data that they read, and the wheel that has all of
it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.cli import lessons as verb
from simulator.lessons.catalogue import DATA, LessonError, data, lessons
from simulator.lessons.exercises import canonical
from tests.golden.lesson_excerpts import excerpts
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]


def test_the_list_has_every_lesson_in_lines_that_a_terminal_shows_whole(tcsim: Tcsim) -> None:
    code, out, err = tcsim("lessons")
    assert (code, err) == (0, "")
    assert out.count(" minutes; builds on ") == len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert "13. A real kernel (" in out
    assert max(map(len, out.splitlines())) <= 88


def test_copies_overwrite_nothing_unless_told_to(tcsim: Tcsim, tmp_path: Path) -> None:
    there = tmp_path / "lessons"
    code, out, err = tcsim("lessons", there)
    assert (code, err) == (0, "")
    copied = [Path(line) for line in out.splitlines()]
    assert [path.name for path in copied] == [one.notebook.name for one in lessons()]
    assert sorted(there.iterdir()) == sorted(copied)

    copied[3].write_text("my work")
    copied[0].unlink()
    code, out, err = tcsim("lessons", there)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "would be overwritten; legal: another folder, or --force" in err
    assert copied[3].read_text() == "my work"
    assert not copied[0].exists()
    assert tcsim("lessons", there, "--force", "--no-open")[0] == 0
    assert copied[3].read_bytes() == lessons()[3].notebook.read_bytes()

    code, out, err = tcsim("lessons", copied[0])
    assert (code, out) == (2, "")
    assert "is a file; legal: a folder" in err


def test_the_first_is_opened_on_a_terminal_only(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: started.append(command))
    monkeypatch.setattr(verb, "find_spec", lambda package: object() if package == "notebook" else None)
    tcsim("lessons", tmp_path / "piped")
    assert not started
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    tcsim("lessons", tmp_path / "quiet", "--no-open")
    assert not started
    assert tcsim("lessons", tmp_path / "open")[0] == 0
    assert started == [[sys.executable, "-m", "jupyter", "notebook", "1_sparsity.ipynb"]]
    monkeypatch.setattr(verb, "find_spec", lambda package: None)
    assert "pip install jupyterlab" in tcsim("lessons", tmp_path / "none")[2]
    assert len(started) == 1


def test_all_spellings_of_an_answer_are_one_and_what_is_none_is_refused() -> None:
    same = ((1, (2.0, 0.1)), [1, [2, 0.1]], [np.int8(1), np.array([2, 0.1])])
    assert len({canonical(answer) for answer in same}) == 1
    assert canonical({3, 1}) == canonical((1, 3)) != canonical((3, 1))
    assert canonical(True) == canonical(np.uint8(1)) == "1"
    assert canonical(1 / 3) == canonical(np.float32(1 / 3)) == "0.333333"
    with pytest.raises(LessonError, match="is no answer; legal: a number or text"):
        canonical(object())


def test_the_wheel_has_the_data_of_the_lessons_under_their_names() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = {place: name for name, place in wheel["force-include"].items() if "/data/lessons/" in place}
    assert shipped == {f"simulator/data/lessons/{name}": place for name, place in DATA.items()}
    assert all(data(name).exists() for name in DATA)
    with pytest.raises(LessonError, match=r"no lesson has data called 'loop'; legal: planted, "):
        data("loop")


def test_the_recordings_of_lessons_are_cut_from_the_golden_data() -> None:
    for name, arrays in excerpts().items():
        with np.load(data(name)) as stored:
            assert stored.files == list(arrays)
            assert all((stored[key] == arrays[key]).all() for key in arrays)
