"""Which files of the repository are pages of the site, and their links.

Pages link to each other, and to sources and data, by paths within the repository, so that they can be read there. The
site has its pages elsewhere, and of sources and data it has copies that a browser shows as text; `relinked` writes a
page's links accordingly.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
FILES = "files"  # the folder of the site with copies of sources and data
TEXTS = (".py", ".c", ".h", ".js", ".toml", ".csv", ".trace", ".txt", ".ptx", ".cu")  # copied as .txt: shown, not saved
OTHERS = (
    *("CONTRIBUTING.md", "CHANGELOG.md", "notebooks/README.md", "traces/digits/README.md", "tests/README.md"),
    *("tests/golden/README.md", "measurements/README.md", "measurements/energy/README.md"),
    "measurements/gemm/README.md",
)

_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ ]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(([^()\s]+)\)")
_BULLET = re.compile(r"^\s*(?:[*-]|\|) *\[([^\]]+)\]\(([^()\s]+)\)", re.MULTILINE)
_REMOTE = re.compile(r"^(?:[a-z]+:|#)")


def pages() -> dict[str, str]:
    """Every page: its path in the repository, and the path of its source in the site."""
    found = {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    found |= {"README.md": "first_session.md"}
    found |= {other: other for other in OTHERS}
    lessons = sorted((ROOT / "notebooks").glob("[0-9]*_*.ipynb"))
    return found | {f"notebooks/{path.name}": f"notebooks/{path.name}" for path in lessons}


_PICTURE = re.compile(r"(!\[[^\n]*?\]\()([^)\s]+)\)")


class Linker:
    """Writes links, and remembers which files they need.

    Attributes:
        pages: as `pages` says.
        copied: files of the repository that are linked to, and their paths in the site.
    """

    def __init__(self, known: dict[str, str]) -> None:
        self.pages = known
        self.copied: dict[str, str] = {}

    def relinked(self, text: str, page: str) -> str:
        """The text of a page of the repository, with the links of the site. Blocks of code stay as they are."""
        text = _outside_code(text, lambda part: _LINK.sub(lambda link: self._link(link, page), part))
        return _outside_code(text, lambda part: _PICTURE.sub(lambda link: self._picture(link, page), part))

    def _picture(self, link: re.Match[str], page: str) -> str:
        """A picture of docs/, all of which lie at the root of the site."""
        file = os.path.normpath(PurePosixPath(page).parent / link[2])
        here = PurePosixPath(self.pages[page]).parent
        return f"{link[1]}{os.path.relpath(PurePosixPath(file).name, here)})" if file.startswith("docs/") else link[0]

    def _link(self, link: re.Match[str], page: str) -> str:
        words, target = link[1], link[2]
        if _REMOTE.match(target):
            return link[0]
        path, hash, section = target.partition("#")
        file = os.path.normpath(PurePosixPath(page).parent / path)
        here = PurePosixPath(self.pages[page]).parent
        if (ROOT / file).is_dir():
            file = f"{file}/README.md"
        if file in self.pages:
            return f"[{words}]({os.path.relpath(self.pages[file], here)}{hash}{section})"
        if not (ROOT / file).is_file():
            return f"{words} (`{file.removesuffix('/README.md')}`)"
        self.copied[file] = f"{FILES}/{file}" + (".txt" if file.endswith(TEXTS) else "")
        return f'<a href="{os.path.relpath(self.copied[file], here)}">{words}</a>'

    def copy(self, target: Path) -> None:
        """Lays the files that are linked to into the folder of the site."""
        for file, place in self.copied.items():
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, target / place)

    def contents(self, text: str, page: str) -> str:
        """Hidden tables of contents of a page that lists others: one for each section, of the pages that its list or
        table begins its lines with. They become the site's navigation, in that order."""
        written, seen = "", set[str]()
        for section in re.split(r"^## ", text, flags=re.MULTILINE):
            entries = []
            for words, target in _BULLET.findall(section):
                file = os.path.normpath(PurePosixPath(page).parent / target.partition("#")[0])
                if file in self.pages and file not in seen and not _REMOTE.match(target):
                    seen.add(file)
                    place = os.path.relpath(self.pages[file], PurePosixPath(self.pages[page]).parent)
                    entries.append(f"{words} <{place.rpartition('.')[0]}>")
            if entries:
                caption = "" if page != "docs/index.md" else f":caption: {section.splitlines()[0]}\n"
                written += "\n\n```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(entries) + "\n```\n"
        return written


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    written, last = [], 0
    for fence in _FENCE.finditer(text):
        written += [change(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*written, change(text[last:])])
