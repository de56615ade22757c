"""The documentation is run: console examples, Python examples, links, and the tables that commands generate."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from simulator.arithmetic import evidence
from simulator.chip.config import config_names, load_config
from simulator.errors import ConfigError
from tests.support.cases import case_of, over
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "traces" / "digits" / "README.md",
        ROOT / "notebooks" / "README.md",
    ]
)
EXAMPLES = [page for page in PAGES if page.name != "extending.md"]  # its examples need its diffs: test_extending.py
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
_LAYOUTS = (ROOT / "docs" / "pictures.md").read_text()
_LINK = re.compile(r"\]\(([^)#:]+)\)")


def _sessions() -> list[tuple[str, str]]:
    found = []
    for page in EXAMPLES:
        for block in _CONSOLE.findall(page.read_text()):
            for session in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
                if session.strip():
                    found.append((page.name, session))
    return found


LONG = (
    "$ tcsim sweep ",  # many runs, as the Python example of the page
    "$ tcsim launch tests/golden/launches/f16_ragged.json --config",
    "$ tcsim check tests/golden/planted",
    "$ tcsim design",
    "$ tcsim accuracy",
    "$ tcsim faults cost",
    "$ tcsim gemm --m 1024",
    "$ tcsim roofline digits/f16 digits/s8",
    "$ tcsim validate --config h100_sxm --group energy",
)


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_console_examples(tcsim: Tcsim, long: bool) -> None:
    sessions = [each for each in _sessions() if each[1].startswith(LONG) == long]
    assert sessions
    for page, session in sessions:
        with case_of(page, session.splitlines()[0]):
            check_session(tcsim, page, session)


def check_session(tcsim: Tcsim, page: str, session: str) -> None:
    """The command ends well and prints the lines that are shown, in their order."""
    command, *shown = session.rstrip().splitlines()
    code, out, err = tcsim(*shlex.split(command.removeprefix("$ tcsim ")))
    printed = (out + err).splitlines()
    assert code in (0, 1), f"{page}: {command}: {err}"
    at = 0
    for line in (line for line in shown if line != "..."):
        assert line in printed[at:], f"{page}: {command} does not print {line!r} there"
        at = printed.index(line, at) + 1


LONG_PAGES = ("sweep.md", "timelines.md", "configs.md", "energy.md", "sparselt_matmul.md", "arithmetic.md")


@over(
    "page",
    [page for page in EXAMPLES if _PYTHON.search(page.read_text())],
    ids=lambda page: page.name,
    distinct=lambda page: "long" if page.name in LONG_PAGES else page.name,
)
def test_python_examples(page: Path) -> None:
    for block in _PYTHON.findall(page.read_text()):
        parsed = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), 0)
        assert parsed.examples
        assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


@pytest.mark.parametrize(
    "module",
    [
        "isa",
        "simulator",
        "simulator.tables",
        "simulator.views.forms",
        "simulator.studies.roofline",
        "simulator.layout.shared",
        "simulator.views.drawing",
        "simulator.views.drawing.vision",
    ],
)
def test_docstring_examples(module: str) -> None:
    imported = import_module(module)
    result = doctest.testmod(imported)
    assert result.attempted > 0
    assert result.failed == 0


@over("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_tables_of_arithmetic_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "arithmetic.md").read_text()
    assert evidence.rules() in text
    assert evidence.rows() in text


@pytest.mark.parametrize(
    ("options", "name"), re.findall(r"^tcsim layout (.*) --output (\S+\.svg)$", _LAYOUTS, re.MULTILINE)
)
def test_the_pictures_of_layouts_are_those_that_the_commands_draw(
    tcsim: Tcsim, tmp_path: Path, options: str, name: str
) -> None:
    assert tcsim("layout", *shlex.split(options), "--output", tmp_path / "x.svg")[0] == 0
    assert (tmp_path / "x.svg").read_bytes() == (ROOT / "docs" / name).read_bytes()


def test_every_config_table_is_documented() -> None:
    text = (ROOT / "docs" / "configs.md").read_text()
    assert all(f"`{name}`" in text for name in config_names())
    config = load_config("h100_sxm")
    for table in config.sources:
        assert f"[{table.split()[0]}]" in text


def test_the_config_exploration_of_the_docs(tcsim: Tcsim, tmp_path: Path) -> None:
    """docs/configs.md: a config of one's own. A faster pipe never makes the run longer here, where shared memory is the
    bound."""
    page, mine = (ROOT / "docs" / "configs.md").read_text(), tmp_path / "wide.toml"
    text = page.partition("```toml\n")[2].partition("```")[0]
    mine.write_text(text)
    assert load_config(mine).shared.latency == 30
    assert (
        tcsim(
            "config",
            "h100_sxm",
            "--set",
            "name=wide",
            "--set",
            "tensor.sparse_full_k.interval=4",
            "--format",
            "toml",
            "--output",
            mine,
        )[0]
        == 0
    )
    assert {c.interval for c in load_config(mine).tensor if c.name.startswith("sparse, full k")} == {4}
    assert tcsim("run", "digits/f16", "--config", mine, "--arithmetic", "none")[0] == 0
    mine.write_text(text.replace("interval = 4", "intervall = 4"))
    with pytest.raises(ConfigError, match="did you mean 'interval'"):
        load_config(mine)


@pytest.mark.exhaustive
def test_the_table_of_instructions_is_current() -> None:
    from tests.golden import opcode_table

    assert (ROOT / "docs" / "opcodes.md").read_text() == opcode_table.table()
