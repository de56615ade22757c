"""Builds the site: `python docs/site/build.py OUT`, or `make site`.

The sources (pages of the repository with the site's links, pages written from the code, the lessons with the outputs
that are checked in) are laid beside OUT, in OUT.sources; Sphinx makes pages of them, and takes warnings for errors.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

from api import api_list, api_pages
from diagrams import drawn
from generated import GENERATED
from pages import ROOT, Linker, pages

_MARK = re.compile(r"^<!-- the site writes here: (\w+) -->$", re.MULTILINE)
WRITERS = GENERATED | {"api": api_list}
LISTS = ("docs/index.md", "notebooks/README.md")  # pages whose lists are the site's navigation


def lay_out(target: Path) -> None:
    """Writes the sources of all pages, and the pictures, into a folder."""
    shutil.rmtree(target, ignore_errors=True)
    linker = Linker(pages())
    for page, place in linker.pages.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / page).read_text(encoding="utf-8")
        text = _lesson(text, page, linker) if page.endswith(".ipynb") else _page(text, page, linker)
        (target / place).write_text(text, encoding="utf-8")
    (target / "api").mkdir()
    for place, text in api_pages().items():
        (target / place).write_text(text, encoding="utf-8")
    for picture in (*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")):
        shutil.copyfile(picture, target / picture.name)
    linker.copy(target)


def _page(text: str, page: str, linker: Linker) -> str:
    """A page of the repository as a page of the site."""
    text = _MARK.sub(lambda mark: WRITERS[mark[1]](), linker.relinked(text, page))
    return drawn(text) + (linker.contents((ROOT / page).read_text(encoding="utf-8"), page) if page in LISTS else "")


def _lesson(text: str, page: str, linker: Linker) -> str:
    """A lesson with the site's links in its words."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = linker.relinked("".join(cell["source"]), page)
    return json.dumps(notebook)


def main() -> int:
    """Builds; returns Sphinx's exit code."""
    parser = argparse.ArgumentParser(description="Builds the documentation as a site.")
    parser.add_argument("out", type=Path, help="the folder of the site")
    out = parser.parse_args().out.resolve()
    sources = out.with_name(f"{out.name}.sources")
    shutil.rmtree(out, ignore_errors=True)
    lay_out(sources)
    from sphinx.cmd.build import main as sphinx

    options = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs"), "-d", f"{sources}/.doctrees"]
    code: int = sphinx([*options, str(sources), str(out)])
    if not code:
        if (sources / "files").is_dir():
            shutil.copytree(sources / "files", out / "files")
        print(f"the site: {out / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
