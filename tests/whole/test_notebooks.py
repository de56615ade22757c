"""The lessons: each notebook has its script's cells and the outputs that these give now, and opens with its
question."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.lessons.catalogue import LessonError, lessons
from simulator.lessons.exercises import check, exercises, is_right
from tests.support.paths import ROOT

FOLDER = ROOT / "notebooks"
SCRIPTS = sorted(FOLDER.glob("[0-9]*_*.py"), key=lambda path: int(path.stem.split("_")[0]))
MOST_BYTES, MOST_PICTURE_BYTES = 250_000, 100_000
COLUMNS = 88  # that a page shows whole
ANSWERS: dict[str, object] = {
    "1.1": (6 * 2**20, 8),
    "1.2": (True, False),
    "1.3": (6, False),
    "2.1": ((5, 3), (5, 1)),
    "2.3": (4, 0),
    "3.1": (22, 12),
    "3.2": ((0, 1), (2, 3), 0, 1),
    "3.3": (512, 1024, {"s8", "s4"}),
    "4.1": [13, 13],
    "4.2": (10, 4, 14),
    "4.3": (True, False),
    "5.1": (88, 1, 20),
    "5.2": (32, 1),
    "5.3": (256, 8192),
    "6.1": (3, False),
    "6.2": 4,
    "6.3": (12, 8),
    "7.1": 2.0**14,
    "7.2": 128,
    "7.3": (True, False),
    "8.1": 8,
    "8.2": 14,
    "8.3": 2112,
    "9.1": 69,
    "9.2": ("bandwidth", True),
    "9.3": False,
    "9.4": (4.0, 8),
    "10.1": (128, 1),
    "10.2": ("due", "sdc"),
    "10.3": (False, True, 128),
    "11.1": (True, False),
    "11.2": 64,
    "11.3": (True, "rtx4090"),
    "12.1": "falls",
    "12.2": 2048,
    "12.3": {"l2.read_bytes", "shared.wavefronts"},
    "13.1": 9.539,
    "13.2": 4,
    "13.3": ({3, 4, 8, 9}, 8),
    "14.1": (2048, 3072, 4096),
    "14.2": (5, 26),
    "14.3": ("2:8", "64:2:8", False),
    "15.1": (1536, 48, 8),
    "15.2": (13, 33, 0),
    "15.3": (196, 512),
}

each = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def _checked_in(script: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    return found


def _join(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _texts(outputs: list[dict[str, Any]]) -> list[str]:
    """What a cell printed and returned. Of pictures in PNG only that they are there: another version of matplotlib sets
    other pixels."""
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            found.append(f"{output['name']}: {_join(output['text'])}")
        else:
            data = output["data"]
            found.append("picture" if "image/png" in data else "\n".join(_join(data[kind]) for kind in sorted(data)))
    return found


def test_there_are_fifteen_and_the_list_has_each_with_its_question() -> None:
    assert [int(script.stem.split("_")[0]) for script in SCRIPTS] == list(range(1, 16))
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert f"({script.stem}.ipynb)" in listed
        assert _question(script) in listed


def _question(script: Path) -> str:
    """The bold question of the first cell."""
    first = _checked_in(script)["cells"][0]
    assert first["cell_type"] == "markdown"
    found = re.match(r"# \d+\. .+\n\n\*\*([^*]+\?)\*\*", _join(first["source"]))
    assert found, f"{script.name}: opens with a title and a question in bold"
    return found[1]


@each
def test_the_notebook_has_the_cells_of_its_script_and_is_small(script: Path) -> None:
    build = pytest.importorskip("notebooks.build", reason="needs the extra dev")
    notebook = build.notebook_of(script)
    checked_in = _checked_in(script)
    cells = [(cell["id"], cell["cell_type"], _join(cell["source"])) for cell in checked_in["cells"]]
    assert cells == [(cell.id, cell.cell_type, cell.source) for cell in notebook.cells], (
        f"run: python notebooks/build.py {script.stem}"
    )
    assert script.with_suffix(".ipynb").stat().st_size <= MOST_BYTES
    for cell in checked_in["cells"]:
        assert cell["metadata"] in ({}, build.FOLDED)
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error"
            assert " at 0x" not in str(output.get("text", output.get("data", {}).get("text/plain"))), (
                "an object's address changes with every run"
            )
            assert len(output.get("data", {}).get("image/png", "")) * 3 // 4 <= MOST_PICTURE_BYTES


@each
def test_links_lead_somewhere(script: Path) -> None:
    for cell in _checked_in(script)["cells"]:
        if cell["cell_type"] == "markdown":
            for link in re.findall(r"\]\(([^)#:]+)\)", _join(cell["source"])):
                assert (FOLDER / link).exists(), f"{script.name}: {link}"


@each
def test_exercises_have_folded_solutions_and_a_check_that_tells_nothing(script: Path) -> None:
    cells = _checked_in(script)["cells"]
    number = script.stem.split("_")[0]
    found: list[str] = []
    for at, cell in enumerate(cells):
        if "<details>" in _join(cell["source"]):
            found.append(f"{number}.{len(found) + 1}")
            solution = _join(cell["source"]).split("<details>")[1]
            assert f'check("{found[-1]}", answer)\n```\n</details>' in solution
            assert _join(cells[at + 1]["source"]) == f'answer = None\ncheck("{found[-1]}", answer)'
    assert 2 <= len(found) <= 4
    assert found == [name for name in exercises() if name.split(".")[0] == number]


def test_the_checks_take_right_answers_and_refuse_wrong_ones(capsys: pytest.CaptureFixture[str]) -> None:
    row, column = np.indices((16, 32))
    right = ANSWERS | {"2.2": column // 4 % 4 + 4 * (row % 8)}
    assert set(right) == set(exercises())
    for name, value in right.items():
        assert is_right(name, value), name
        assert not is_right(name, [value, 1])
    for name, value in (("1.1", (8, 6 * 2**20)), ("2.2", np.zeros((16, 32))), ("6.2", 3), ("13.1", 9.53)):
        check(name, value)
        assert f"{name}: not yet. Hint: " in capsys.readouterr().out
    check("5.3", [np.int64(256), 8192.0])
    assert capsys.readouterr().out == "5.3: right\n"
    with pytest.raises(LessonError, match=r"no exercise '2\.9'; legal: one of 1\.1, "):
        check("2.9", 1)


@each
def test_code_and_outputs_fit_a_page_and_a_picture_is_in_the_first_screen(script: Path) -> None:
    """Solutions, too. The first cell of code has a picture, and its source is folded, so that the picture is seen."""
    cells = _checked_in(script)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    texts = [_join(cell["source"]) for cell in code]
    texts += [block for cell in cells for block in re.findall(r"```\w*\n(.*?)```", _join(cell["source"]), re.DOTALL)]
    for output in (output for cell in code for output in cell["outputs"]):
        shown = output.get("data", {"text/plain": output.get("text", "")})
        texts += [] if "text/html" in shown else [_join(shown.get("text/plain", ""))]
    for line in "\n".join(texts).splitlines():
        assert len(line) <= COLUMNS, f"{script.name}: {line}"
    kinds = {kind for output in code[0]["outputs"] for kind in output.get("data", {})}
    assert kinds & {"image/png", "image/svg+xml"}, f"{script.name}: no picture in the first cell of code"
    assert [cell["metadata"].get("jupyter") for cell in code] == [{"source_hidden": True}] + [None] * (len(code) - 1)


def test_every_lesson_says_goals_minutes_and_what_it_builds_on() -> None:
    found = lessons()
    assert [one.number for one in found] == list(range(1, len(SCRIPTS) + 1))
    for one in found:
        assert 20 <= one.minutes <= 40
        assert len(one.goals) >= 3
        assert one.builds_on


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel installs, and nothing of the checkout."""
    hatchling = pytest.importorskip("hatchling.builders.wheel", reason="builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = hatchling.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "site")
    return folder / "site"


@pytest.mark.exhaustive
@each
def test_the_installed_package_gives_the_outputs_that_are_checked_in_and_solutions_are_right(
    script: Path, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder. Each folded solution runs, too, where it stands."""
    monkeypatch.setenv("PYTHONPATH", str(installed))
    nbformat = pytest.importorskip("nbformat", reason="needs the extra dev")
    build = pytest.importorskip("notebooks.build", reason="needs the extra dev")
    notebook = build.notebook_of(script)
    given, notebook.cells = notebook.cells, []
    for cell in given:
        solutions = re.findall(r"```python\n(.*?)```", cell.source, re.DOTALL) if cell.cell_type == "markdown" else []
        notebook.cells += [cell, *map(nbformat.v4.new_code_cell, solutions)]
    where = "from simulator.lessons import lessons\nprint(lessons()[0].notebook)"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(where))
    done = build.execute(notebook, tmp_path)
    assert str(installed) in _texts(done["cells"].pop(0)["outputs"])[0]
    then = {cell["id"]: cell for cell in _checked_in(script)["cells"]}
    for cell in done["cells"]:
        what = f"{script.name}, {cell['id']}:\n{_join(cell['source'])}"
        if cell["id"] in then:
            assert _texts(cell.get("outputs", [])) == _texts(then[cell["id"]].get("outputs", [])), what
        else:
            (exercise,) = re.findall(r'check\("([\d.]+)", answer\)', _join(cell["source"]))
            assert f"{exercise}: right" in "".join(_texts(cell["outputs"])), what
