"""docs/extending.md is executed: the diffs of a section are applied to a copy of the checkout, where its checks
run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import exhaustive
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "extending.md"
COPIED = ("isa", "simulator", "configs", "campaigns", "notebooks")
LINKED = ("traces",)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DOCTEST = """
import doctest, sys
test = doctest.DocTestParser().get_doctest(open(sys.argv[1]).read(), {}, sys.argv[2], sys.argv[1], 0)
assert test.examples
sys.exit(doctest.DocTestRunner().run(test).failed > 0)
"""


def sections() -> dict[str, list[tuple[str, str]]]:
    """The language and the text of every block, by the heading above it."""
    _, *parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return {title: _BLOCK.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy that a diff may change."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.ipynb"))
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(folder: Path, *command: str, text: str | None = None) -> str:
    """The output of a command in the copy, whose packages are those that are imported; AssertionError if it fails. What
    a command has compiled, the next need not."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent)},
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}"
    return done.stdout


def console(folder: Path, block: str) -> None:
    """Runs the commands of a console block; what is printed has the lines that are shown, in their order."""
    for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = session.rstrip().splitlines()
        program, *arguments = shlex.split(command)
        where = ["-m", "simulator"] if program == "tcsim" else []
        printed = iter(run(folder, sys.executable, *where, *arguments).splitlines())
        for line in shown:
            assert line == "..." or line in printed, f"{command} does not print {line!r} there"


def test_the_page_has_what_people_add() -> None:
    assert list(sections()) == [
        "An instruction",
        "A chip",
        "A unit of your own",
        "A fault model",
        "A lesson",
        "A sparsity pattern",
    ]
    for title, blocks in sections().items():
        languages = {language for language, _ in blocks}
        assert "diff" in languages, title
        assert languages & {"python", "console"}, f"{title} has no check"


@pytest.mark.skipif(shutil.which("git") is None, reason="no git on PATH to apply a diff with")
@pytest.mark.parametrize("title", [pytest.param(t, marks=[exhaustive] if n else []) for n, t in enumerate(sections())])
def test_a_section_works(title: str, checkout: Path) -> None:
    """The checks of a section fail before its diffs, so they prove something, and pass behind them."""
    blocks = sections()[title]
    checks = [numbered for numbered in enumerate(blocks) if numbered[1][0] in ("console", "python")]
    for language, block in blocks:
        if language == "toml":
            (checkout / block.splitlines()[0].removeprefix("# ")).write_text(block)
    with pytest.raises(AssertionError):
        check_all(checkout, title, checks)
    for language, block in blocks:
        if language == "diff":
            run(checkout, "git", "apply", "--recount", "-", text=block)
    check_all(checkout, title, checks)


def check_all(checkout: Path, title: str, checks: list[tuple[int, tuple[str, str]]]) -> None:
    """Runs what a section shows; AssertionError if something else comes of it."""
    for number, (language, block) in checks:
        if language == "console":
            console(checkout, block)
        else:
            (checkout / f"check_{number}.txt").write_text(block)
            run(checkout, sys.executable, "-c", _DOCTEST, f"check_{number}.txt", title)
