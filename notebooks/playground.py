"""Builds the playground: a folder of files with which the lessons run in a browser, without an installation.

    python notebooks/playground.py out/playground
    python -m http.server --directory out/playground

Python is Pyodide, tcsim is its pure wheel with numpy's arithmetic. Everything lies in the folder: a browser loads
nothing from elsewhere. Needs npm and a network to build (Pyodide, and numpy compiled for it), and the extra `dev`.

pandas and matplotlib cannot be had compiled for this Python and numpy: pictures of matplotlib are the recorded ones,
and lessons that need pandas (`WITHOUT`) show what was recorded.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

HERE = Path(__file__).resolve().parent
NPM = ("pyodide@0.25.1", "@emscripten-forge/numpy@2.1.1-py311hc8e14bb-0")
"""Python 3.11 and numpy for it: both are of the same compiler version (Emscripten 3.1.4x), on which it depends."""
WHEELS = ("simpy", "cython")
CYTHON = ("cython.py", "Cython/__init__.py", "Cython/Shadow.py")
"""What the timing model needs of Cython where it is interpreted; the rest is the compiler."""
RUNTIME = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
PAGE = ("index.html", "page.css", "page.js", "worker.js")
WITHOUT = {"9_design_exploration.ipynb": "pandas", "12_studies.ipynb": "pandas"}
_KEPT = re.compile(r"^lib/python3\.11/site-packages/(?P<file>numpy/(?!.*/tests/|.*\.(?:h|a|pyi|c|pyx)$).+)$")


class PlaygroundError(Exception):
    """A part of the playground that cannot be had."""


def build(target: Path) -> None:
    """Writes the playground to a folder, which takes the place of what was there.

    Raises:
        PlaygroundError: npm is missing, or a package cannot be fetched.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "playground"
        modules = _fetched(Path(folder) / "npm")
        (made / "pyodide").mkdir(parents=True)
        for name in RUNTIME:
            shutil.copy(modules / "pyodide" / name, made / "pyodide" / name)
        for name in PAGE:
            shutil.copy(HERE / "playground" / name, made / name)
        (made / "backtrace.wasm").write_bytes(no_backtrace())
        _pack(modules, Path(folder) / "wheels", made / "packages.zip")
        _write_lessons(made / "lessons")
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)


def _fetched(folder: Path) -> Path:
    """The folder with the packages from npm."""
    if shutil.which("npm") is None:
        raise PlaygroundError("npm is not there: Pyodide and its numpy are packages of npm")
    folder.mkdir()
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PlaygroundError(f"npm cannot fetch {' and '.join(NPM)}: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"


def no_backtrace() -> bytes:
    """A WebAssembly library with one function, `int backtrace(void **, int)`, that returns 0: no frames.

    numpy asks for the callers of large additions, to see whether it may reuse an operand; with no answer it does not.
    """

    def section(number: int, *content: int | bytes) -> bytes:
        data = b"".join(part if isinstance(part, bytes) else bytes([part]) for part in content)
        return bytes([number, len(data)]) + data

    name = b"backtrace"
    return b"\0asm\1\0\0\0" + b"".join(
        (
            section(0, 8, b"dylink.0", 1, 4, 0, 0, 0, 0),  # a side module without memory or table of its own
            section(1, 1, 0x60, 2, 0x7F, 0x7F, 1, 0x7F),  # types: (i32, i32) -> i32
            section(3, 1, 0),  # function 0 is of type 0
            section(7, 1, len(name), name, 0, 0),  # export
            section(10, 1, 4, 0, 0x41, 0, 0x0B),  # code: i32.const 0, end
        )
    )


def _pack(modules: Path, wheels: Path, target: Path) -> None:
    """One archive with what goes on Python's path: numpy, the wheels of simpy and tcsim, and the runner of cells."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    environment = {**os.environ, "TCSIM_KERNEL": "numpy"}
    done = subprocess.run(
        [*pip, "--wheel-dir", str(wheels), *WHEELS, str(HERE.parent)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise PlaygroundError(f"pip cannot make the wheels: {done.stderr.strip()[-300:]}")
    archive = next((modules / "@emscripten-forge" / "numpy" / "pkg").glob("*.tar.gz"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        with tarfile.open(archive) as numpy:
            for member in numpy:
                found = _KEPT.match(member.name)
                content = numpy.extractfile(member) if found else None
                if found and content is not None:
                    packed.writestr(found["file"], content.read())
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as content:
                names = CYTHON if wheel.name.lower().startswith("cython-") else content.namelist()
                for name in names:
                    packed.writestr(name, content.read(name))
        packed.write(HERE / "playground" / "cells.py", "cells.py")


def _write_lessons(folder: Path) -> None:
    """The cells of each lesson, and a list of the lessons."""
    from simulator.lessons import lessons

    folder.mkdir()
    listed = []
    for lesson in lessons():
        notebook = json.loads(lesson.notebook.read_text(encoding="utf-8"))
        file = f"{lesson.notebook.stem}.json"
        (folder / file).write_text(json.dumps([_cell(cell) for cell in notebook["cells"]]), encoding="utf-8")
        without = WITHOUT.get(lesson.notebook.name, "")
        listed.append(
            {
                "number": lesson.number,
                "title": lesson.title,
                "minutes": lesson.minutes,
                "file": file,
                "without": without,
            }
        )
    (folder / "index.json").write_text(json.dumps(listed), encoding="utf-8")


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell of a notebook as the page takes it: text as HTML, code with its recorded outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return {"kind": "text", "html": _links(MarkdownIt("commonmark").enable("table").render(source))}
    folded = "jupyter" in cell["metadata"]  # see FOLDED of build.py
    return {"kind": "code", "source": source, "folded": folded, "outputs": [_output(each) for each in cell["outputs"]]}


def _output(output: dict[str, Any]) -> dict[str, str]:
    """An output of a notebook in the form that `cells.Session.run` gives."""
    if output["output_type"] == "stream":
        return {"kind": "text", "data": "".join(output["text"])}
    for kind, name in (("svg", "image/svg+xml"), ("png", "image/png"), ("html", "text/html"), ("text", "text/plain")):
        if name in output["data"]:
            return {"kind": kind, "data": "".join(output["data"][name])}
    raise PlaygroundError(f"an output of a lesson has no form that the page shows: {', '.join(output['data'])}")


def _links(html: str) -> str:
    """HTML whose links to lessons stay in the page; those to files of the repository become plain text."""
    html = re.sub(r'<a href="(\d+)_\w+\.ipynb">', r'<a href="#\1">', html)
    return re.sub(r'<a href="(?!#|https?:)[^"]*">(.*?)</a>', r"\1", html, flags=re.DOTALL)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python notebooks/playground.py FOLDER")
    try:
        build(Path(sys.argv[1]))
    except PlaygroundError as problem:
        print(f"playground: {problem}", file=sys.stderr)
        sys.exit(2)
