"""What several tests use."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from simulator.cli.main import main
from tests.support import processor_times
from tests.support.cases import EXHAUSTIVE, examples

# Tests start a hundred processes that import the package: it is compiled once, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--processor-times`."""
    processor_times.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Where exhaustive tests are not left out, properties are tried with all their examples. Until all tests are known
    nothing is garbage, and no search looks for it."""
    gc.disable()
    if "not exhaustive" not in config.getoption("markexpr"):
        os.environ[EXHAUSTIVE] = "1"
    for name in ("COLUMNS", "LINES"):  # texts are as wide as they are; what asks for another width sets it
        os.environ.pop(name, None)
    settings.register_profile("tcsim", max_examples=examples(100), deadline=None)  # of a machine that others use, too
    settings.load_profile("tcsim")
    processor_times.register(config)


def pytest_collection_finish() -> None:
    """The collector of garbage need not look again and again at what stays: modules, and the cases of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    gc.enable()


@pytest.fixture
def tcsim(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: exit code, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 2
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def browse() -> Callable[..., Any]:
    """Runs a script in the explorer's page: `browse(script, data, fragment)`, see tests/support/explorer_browser.py."""
    from tests.support.explorer_browser import run_page

    return run_page
