"""The lessons: each notebook has its script's cells and the outputs that these give now, and opens with its
question."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "notebooks"
SCRIPTS = sorted(FOLDER.glob("[0-9]*_*.py"), key=lambda path: int(path.stem.split("_")[0]))
MOST_BYTES, MOST_PICTURE_BYTES = 250_000, 100_000

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


def test_there_are_thirteen_and_the_list_has_each_with_its_question() -> None:
    assert [int(script.stem.split("_")[0]) for script in SCRIPTS] == list(range(1, 14))
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
        assert not cell["metadata"]
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
def test_exercises_come_with_answers_that_are_checked(script: Path) -> None:
    cells = _checked_in(script)["cells"]
    answers = [number for number, cell in enumerate(cells) if "<details>" in _join(cell["source"])]
    assert 2 <= len(answers) <= 4
    for number in answers:
        assert cells[number + 1]["cell_type"] == "code"
        assert "assert" in _join(cells[number + 1]["source"])


@pytest.mark.exhaustive
@each
def test_running_the_script_gives_the_outputs_that_are_checked_in(script: Path) -> None:
    build = pytest.importorskip("notebooks.build", reason="needs the extra dev")
    executed = json.loads(build.text_of(build.execute(build.notebook_of(script))))
    for now, then in zip(executed["cells"], _checked_in(script)["cells"], strict=True):
        assert _texts(now.get("outputs", [])) == _texts(then.get("outputs", [])), (
            f"{script.name}, {now['id']}:\n{_join(now['source'])}"
        )
