"""What several tests use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.cli import main

ROOT = Path(__file__).resolve().parent.parent


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
