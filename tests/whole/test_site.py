"""The documentation as a site: it builds without a warning, has a place for everything, and loads nothing from
elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import isa
import simulator
from isa.undefined import RULES
from simulator.chip.config import config_names
from simulator.chip.entries import entries
from simulator.cli.verbs import VERBS
from simulator.lessons import lessons
from tests.support.paths import ROOT

BUILD = ROOT / "docs" / "site" / "build.py"
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}


def test_the_index_lists_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in text, page.name


class Page(HTMLParser):
    """What a page loads, where its links lead, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {value for name, value in attrs if name in ("id", "name") and value}
        if tag in LOADING and given.get(LOADING[tag]):
            self.loads.append(str(given[LOADING[tag]]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    for package in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(package, reason="needs the extra docs")
    out = tmp_path_factory.mktemp("site") / "site"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "40"}  # help texts have a width of their own
    done = subprocess.run(
        [sys.executable, str(BUILD), str(out)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return out


@pytest.fixture(scope="module")
def read(site: Path) -> dict[str, Page]:
    """Every page by its path in the site."""
    return {str(path.relative_to(site)): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def _text(site: Path, name: str) -> str:
    """What a page says, without its markup."""
    return unescape(re.sub(r"<[^>]+>", "", (site / name).read_text(encoding="utf-8")))


@pytest.mark.exhaustive
def test_everything_has_its_place(site: Path, read: dict[str, Page]) -> None:
    help_texts = _text(site, "cli.html")
    for verb in VERBS:
        assert f"tcsim-{verb}" in read["cli.html"].places
        assert f"usage: tcsim {verb} " in help_texts
    keys = set(re.findall(r"[\w]+(?:\.[\w]+)+", _text(site, "config_keys.html")))
    for config in config_names():
        for entry in entries(config):
            parts = entry.key.split(".")
            general = {".".join([*parts[:at], "ROW", *parts[at + 1 :]]) for at in range(1, len(parts) - 1)}
            assert keys & {entry.key, *general}, f"{config}: {entry.key}"
    for lesson in lessons():
        page = f"notebooks/{lesson.notebook.stem}.html"
        assert page in read
        assert page in read["index.html"].links
        assert lesson.question.replace("`", "") in " ".join(
            _text(site, f"notebooks/{lesson.notebook.stem}.html").split()
        )
    for package in (isa, simulator):
        known = read[f"api/{package.__name__}.html"].places
        said = _text(site, f"api/{package.__name__}.html")
        for name in package.__all__:
            assert name == "__version__" or f"{package.__name__}.{name}" in known or f".{name}" in said, name
    errors = _text(site, "errors.html")
    assert all(name in errors for name in RULES)
    assert all(name in errors for name in simulator.__all__ if name.endswith("Error"))


@pytest.mark.exhaustive
def test_pages_load_nothing_from_elsewhere(site: Path, read: dict[str, Page]) -> None:
    assert len(read) > 60
    for name, page in read.items():
        for target in page.loads:
            assert not re.match(r"(?:[a-z]+:)?//", target), f"{name} loads {target}"
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


@pytest.mark.exhaustive
def test_links_lead_to_pages_and_places_of_the_site(site: Path, read: dict[str, Page]) -> None:
    for name, page in read.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, place = unquote(link).partition("#")
            target = (site / name).parent / file if file else site / name
            assert target.is_file(), f"{name}: {link}"
            other = read.get(os.path.relpath(target, site))
            assert not place or other is None or place in other.places, f"{name}: {link}"
