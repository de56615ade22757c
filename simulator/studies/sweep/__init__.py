"""Sweeps: one question at many points of a design space, one table of answers.

    >>> import simulator
    >>> frame = simulator.sweep.run({"trace": "digits/f16", "chip.clock_mhz": [1000, 2000]}, workers=1)
    >>> frame[["chip.clock_mhz", "cycles", "error"]].to_numpy().tolist()
    [[1000, 8612, ''], [2000, 8612, '']]

A sweep is a dictionary or a TOML file, see `spec`; docs/sweep.md has the whole story. `run` returns a DataFrame,
`execute` writes a table that may have a million rows; `pareto`, `heatmap` and `tornado` draw.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.studies.sweep.pictures import write_heatmap, write_pareto, write_tornado
    from simulator.studies.sweep.planning import Forecast, forecast
    from simulator.studies.sweep.spec import Sweep, read_spec
    from simulator.studies.sweep.table import read
    from simulator.studies.sweep.views import heatmap, pareto, tornado
    from simulator.studies.sweep.work import Progress, Summary, execute, run, sweep_of

_WHERE = {
    **dict.fromkeys(("Sweep", "read_spec"), "spec"),
    "read": "table",
    **dict.fromkeys(("Progress", "Summary", "execute", "run", "sweep_of"), "work"),
    **dict.fromkeys(("Forecast", "forecast"), "planning"),
    **dict.fromkeys(("heatmap", "pareto", "tornado"), "views"),
    **dict.fromkeys(("write_heatmap", "write_pareto", "write_tornado"), "pictures"),
}

__all__ = [
    "Forecast",
    "Progress",
    "Summary",
    "Sweep",
    "execute",
    "forecast",
    "heatmap",
    "pareto",
    "read",
    "read_spec",
    "run",
    "sweep_of",
    "tornado",
    "write_heatmap",
    "write_pareto",
    "write_tornado",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'simulator.studies.sweep' has no attribute '{name}'")
    value = getattr(import_module(f"simulator.studies.sweep.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
