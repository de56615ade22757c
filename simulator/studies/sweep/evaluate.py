"""One point of a sweep: its config is loaded with what the point sets, its subject is timed, and the answer becomes a
row. An error becomes the row's `error`, so that one bad point costs no other.

What the engine sees as the same question is simulated once in a process, see `simulator.studies.gemm.remembered`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from isa.errors import Error, IsaError
from simulator.chip.config import Config, load_config
from simulator.errors import ConfigError
from simulator.simulation.exact import exact_results
from simulator.simulation.interpreter import Executed
from simulator.simulation.reporting import report_of
from simulator.simulation.session import Session
from simulator.studies.gemm.choice import tile_for, tiles_of
from simulator.studies.gemm.energy import LIMITED
from simulator.studies.gemm.remembered import remembered
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile
from simulator.studies.gemm.tile import Tile
from simulator.studies.sparselt.cost import Cost, cost
from simulator.studies.sweep.keys import BEST, CONFIG, GEMM, TRACE, is_override
from simulator.studies.sweep.spec import Sweep
from simulator.timing.result import Timing

SHARES = (
    *("tensor", "metadata path", "operand ports", "issue slots", "alu", "tcgen05 queue"),
    *("shared memory", "path to L2", "L2 reads", "stores", "device memory", "waves"),
)
ENERGY = ("energy_j", "power_w", "tflops_per_watt", "edp_js")
TRACE_ENERGY = ("energy_nj", "power_w")
"""Columns of energy that estimates and reports have; empty cells where the config has no energies."""
COLUMNS: dict[str, str] = {
    "best_tile": "text",
    "ctas": "whole",
    "resident": "whole",
    "waves": "whole",
    "cycles": "whole",
    "time_us": "number",
    "tflops": "number",
    **dict.fromkeys(LIMITED, "number"),
    "bound": "text",
    **{("empty_slots_share" if name == "waves" else f"{name.replace(' ', '_')}_share"): "number" for name in SHARES},
    **dict.fromkeys((*ENERGY, *TRACE_ENERGY), "number"),
    "speedup": "number",
    "assumed": "text",
    "error": "text",
}
"""The columns of the answer with their types; which of them a sweep has, `columns` says."""


def columns(sweep: Sweep) -> tuple[str, ...]:
    """The columns of a sweep's table."""
    without = set() if sweep.relative else {"speedup"}
    if GEMM not in sweep.kinds:
        without |= {"best_tile", "ctas", "resident", "waves", "bound", "empty_slots_share", "L2_reads_share"}
        without |= {"path_to_L2_share", "stores_share", "device_memory_share", *ENERGY} - set(TRACE_ENERGY)
        without |= {"metadata_path_share", "operand_ports_share", "issue_slots_share", "tcgen05_queue_share"}
    if TRACE not in sweep.kinds:
        without |= set(TRACE_ENERGY) - set(ENERGY)
    if not any(
        "tile" in s.keys and BEST in str([a.values for a in s.axes if "tile" in a.keys]) for s in sweep.subjects
    ):
        without.add("best_tile")
    return (*sweep.keys, *(name for name in COLUMNS if name not in without))


def row(sweep: Sweep, number: int) -> dict[str, Any]:
    """The row of a point: its keys, its answer, and `error` where there is none."""
    kind, point = sweep.point(number)
    found: dict[str, Any] = dict(point)
    try:
        found |= measure(kind, point)
        if sweep.relative:
            other = measure(kind, point | sweep.relative)
            found["speedup"] = other["time_us"] / found["time_us"]
    except Error as error:
        found["error"] = str(error)
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError, OSError) as error:
        found["error"] = f"internal error: {type(error).__name__}: {error}"
    return found


def measure(kind: str, point: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a point by its columns; errors as those of what it asks."""
    chip = chip_of(point)
    return _trace(str(point["trace"]), chip) if kind == TRACE else _gemm(point, chip)


def chip_of(point: Mapping[str, Any]) -> Config:
    """The config of a point, with what it sets."""
    return configured(
        str(point[CONFIG]), tuple((key, _plain(value)) for key, value in point.items() if is_override(key))
    )


def _plain(value: Any) -> Any:
    """A value that can be a key of a dictionary."""
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=512)
def configured(name: str, overrides: tuple[tuple[str, Any], ...]) -> Config:
    """A config with some of its values replaced."""
    return load_config(name, dict(overrides))


# GEMMs


def _gemm(point: Mapping[str, Any], chip: Config) -> dict[str, Any]:
    """A GEMM, or a layer as a cuSPARSELt plan: with batches, slices of K, and C that is read."""
    tiles = tiles_of(chip) if point["tile"] == BEST else (str(point["tile"]),)
    found: list[tuple[str, Cost]] = []
    for text in tiles:
        try:
            found.append((text, _cost(text, point, chip)))
        except (IsaError, ConfigError) as error:
            last = error
    if not found:
        raise last
    best, answer = min(found, key=lambda one: one[1].cycles)
    kernel = answer.kernel
    values: dict[str, Any] = {
        "ctas": kernel.ctas,
        "resident": kernel.resident,
        "waves": kernel.waves,
        "cycles": answer.cycles,
        "time_us": answer.time_us,
        "tflops": answer.tflops,
        **{name: getattr(answer, name) for name in LIMITED},
        "bound": kernel.bound,
        "assumed": _tables(answer.assumed),
    }
    for name in SHARES:
        column = "empty_slots_share" if name == "waves" else f"{name.replace(' ', '_')}_share"
        values[column] = kernel.shares.get(name)
    if len(tiles) > 1:
        values["best_tile"] = best
    return values | {name: getattr(kernel, name) for name in ENERGY}


def _cost(text: str, point: Mapping[str, Any], chip: Config) -> Cost:
    return cost(
        _tile(
            text,
            str(point["type"]),
            bool(point["sparse"]),
            point.get("accumulator", ""),
            point.get("warps", ""),
            point.get("stages"),
            point.get("kind", ""),
            chip,
        ),
        point["m"],
        point["n"] * point.get("batch", 1),
        point["k"],
        chip,
        batches=point.get("batches", 1),
        slices=point.get("split_k", 1),
        c_bits=point.get("c_bits", 0),
    )


@lru_cache(maxsize=4096)
def _tile(
    text: str, type: str, sparse: bool, accumulator: str, warps: str, stages: int | None, kind: str, chip: Config
) -> Tile | Tcgen05Tile:
    along = tuple(map(int, warps.split("x"))) if warps else None
    pair = (along[0], along[1]) if along else None
    return tile_for(
        text, type, sparse=sparse, accumulator=accumulator, warps=pair, stages=stages, config=chip, kind=kind
    )


def _tables(assumed: tuple[str, ...]) -> str:
    """The tables of the config that nobody measured or published, as a list in one text."""
    names = [re.match(r"\[(.+?)\]", text) for text in assumed]
    return ", ".join(dict.fromkeys(name[1] for name in names if name))


# Traces


def _trace(name: str, chip: Config) -> dict[str, Any]:
    """A trace: time alone. `tflops` is that of the chip, with all SMs doing this; shares are means over sub-cores."""
    session, executed, timing = _timed(name, chip)
    report = report_of(session.program, chip, executed, timing, exact_results(session, executed, False))
    shares: dict[str, list[float]] = {}
    for place, share in report.utilisation.items():
        unit = re.sub(r"^(sub-core|SM) \d+ ", "", place)
        shares.setdefault(f"{unit.replace(' ', '_')}_share", []).append(share)
    values: dict[str, Any] = {
        "cycles": report.cycles,
        "time_us": report.time_us,
        "tflops": report.throughput.tflops_chip,
        **{name: getattr(report, name) for name in LIMITED},
        "assumed": _tables(tuple(report.assumed)),
        **{column: sum(held) / len(held) for column, held in shares.items() if column in COLUMNS},
    }
    return values | {name: getattr(report, name) for name in TRACE_ENERGY}


@remembered(keep=16)
def _timed(name: str, chip: Config) -> tuple[Session, Executed, Timing]:
    """A session of a trace, its run without results, and its time. The session's config is that of the first question
    that the engine saw as the same."""
    session = Session(name, chip, arithmetic="none")
    session.check()
    executed = session.run(machines=session.fresh())
    return session, executed, session.time(executed)
