"""Runs the lessons: from each script `N_name.py` the executed notebook `N_name.ipynb` beside it.

    python notebooks/build.py            # all; or the names of some: python notebooks/build.py 4 8

The scripts are the source (jupytext's percent format). The same scripts give the same bytes: cells are numbered,
nothing carries a time, and of pictures only the pixels are kept. Needs the extra `dev`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

HERE = Path(__file__).resolve().parent
SECONDS = 300  # for a cell, at most
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
"""Of the first cell of code: JupyterLab and the site fold its source, so that its picture is on the first screen."""


def scripts() -> list[Path]:
    """The sources, in order."""
    return sorted(HERE.glob("[0-9]*_*.py"), key=lambda path: int(path.stem.split("_")[0]))


def notebook_of(script: Path) -> NotebookNode:
    """The notebook of a script, not executed: cells with fixed names, no outputs."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = NotebookNode(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", NotebookNode()
    return notebook


def execute(notebook: NotebookNode, folder: Path = HERE) -> NotebookNode:
    """The notebook with its outputs. An error in a cell is nbclient's CellExecutionError."""
    import matplotlib.font_manager as _  # noqa: F401  # looks for fonts once, and not in a kernel, which would say so in an output

    with tempfile.TemporaryDirectory() as home:
        kept = {name: os.environ.get(name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
        os.environ.update(dict.fromkeys(kept, home))  # a user's own settings change nothing
        try:
            sockets = Config(
                {"ConnectionFileMixin": {"transport": "ipc", "connection_file": f"{home}/kernel.json"}}
            )  # no network, no ports
            place = {"metadata": {"path": str(folder)}}
            client = NotebookClient(
                notebook, timeout=SECONDS, kernel_name="python3", record_timing=False, resources=place, config=sockets
            )
            client.execute()
        finally:
            for name, value in kept.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
    notebook.metadata = NotebookNode(METADATA)
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = [_plain(output) for output in _joined(cell.outputs)]
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Neighbouring pieces of one stream as one piece: where a stream is cut depends on time."""
    found: list[NotebookNode] = []
    for output in outputs:
        if (
            found
            and output.output_type == "stream"
            and found[-1].output_type == "stream"
            and found[-1].name == output.name
        ):
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _plain(output: NotebookNode) -> NotebookNode:
    """An output without metadata, its pictures without comments."""
    if "data" in output:
        output.metadata = NotebookNode()
        if "image/png" in output.data or "image/svg+xml" in output.data:
            output.data.pop("text/plain", None)
        if "image/png" in output.data:
            output.data["image/png"] = b64encode(_pixels(b64decode(output.data["image/png"]))).decode("ascii")
    return output


def _pixels(png: bytes) -> bytes:
    """A PNG file without its texts, which name the program that wrote it."""
    found, at = png[:8], 8
    while at < len(png):
        end = at + 12 + int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] != b"tEXt":
            found += png[at:end]
        at = end
    return found


def text_of(notebook: NotebookNode) -> str:
    """The file's text."""
    cells = []
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    for cell in notebook.cells:
        entry: dict[str, Any] = {
            "cell_type": cell.cell_type,
            "id": cell.id,
            "metadata": FOLDED if cell is first else {},
            "source": _lines(cell.source),
        }
        if cell.cell_type == "code":
            entry |= {"execution_count": cell.execution_count, "outputs": [_entry(output) for output in cell.outputs]}
        cells.append(entry)
    whole = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _entry(output: NotebookNode) -> dict[str, Any]:
    """An output as the file has it: texts as lists of lines."""
    entry: dict[str, Any] = json.loads(json.dumps(output))
    if "text" in entry:
        entry["text"] = _lines(entry["text"])
    for kind, value in entry.get("data", {}).items():
        if isinstance(value, str) and (kind.startswith("text/") or kind == "image/svg+xml"):
            entry["data"][kind] = _lines(value)
    return entry


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(names: list[str]) -> int:
    chosen = [
        script
        for script in scripts()
        if not names or any(name in (script.name.split("_")[0], script.stem, script.name) for name in names)
    ]
    if not chosen:
        print(
            f"build.py: no lesson is called {' or '.join(names)}; there are "
            f"{', '.join(script.stem for script in scripts())}",
            file=sys.stderr,
        )
        return 2
    for script in chosen:
        path = script.with_suffix(".ipynb")
        path.write_text(text_of(execute(notebook_of(script))), encoding="utf-8")
        print(f"{path.relative_to(HERE.parent)}  {path.stat().st_size / 1000:,.0f} kB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
