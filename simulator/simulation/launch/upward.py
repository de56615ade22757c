"""The check of a call, which stands above this package: it is loaded when a kernel is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from simulator.program.capture_record import Capture


class Checked(Protocol):
    """What the check of a launch has found: a `simulator.check.launch_finding.LaunchCheck`."""

    @property
    def findings(self) -> tuple[Any, ...]:
        """The findings, the serious ones first."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found that counts."""

    @property
    def verdict(self) -> str:
        """What was found, and in how much."""

    def table(self) -> str:
        """The findings as text."""

    def json(self) -> str:
        """The findings as JSON."""


def check_call(capture: Capture, expect: Mapping[str, Any], rtol: float, atol: float) -> Checked:
    """Checks a captured call; arguments as of `simulator.check.reference.check_expected`."""
    checked: Checked = import_module("simulator.check.reference").check_expected(capture, expect, rtol=rtol, atol=atol)
    return checked
