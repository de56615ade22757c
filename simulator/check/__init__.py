"""Checks traces and launches for what no chip guarantees: races, missing waits and fences, undefined uses.

`check(trace)` runs a trace once and gives a `Report` of findings, each with its lines and a fix; `tcsim check` prints
it. The package itself can be called, with a trace or with a captured launch: `simulator.check("capture.json")`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from simulator.check.findings import Finding
from simulator.check.report import Report, check

__all__ = ["Finding", "Report", "check"]


class _Callable(ModuleType):
    """This package, which can be called."""

    def __call__(self, source: Any, **options: Any) -> Any:
        """Checks a trace or a launch.

        Args:
            source: a trace as of `check`; or a captured launch: the path of its JSON file, or a `Capture`.
            options: of a trace `ptx`; of a launch those of `simulator.check.reference.check_expected`: `expect`,
                `expect_from`, `rtol`, `atol`.

        Returns:
            A `Report`, or of a launch a `simulator.check.launch_finding.LaunchCheck`.
        """
        from simulator.program.capture_record import Capture

        if isinstance(source, Capture) or (isinstance(source, str | Path) and str(source).endswith(".json")):
            from simulator.check.reference import check_expected

            return check_expected(source, **options)
        return check(source, **options)


sys.modules[__name__].__class__ = _Callable
