"""One point of a sweep: its config is loaded with what the point sets, its subject is timed, and the answer becomes a
row. An error becomes the row's `error`, so that one bad point costs no other.

What the engine sees as the same question is simulated once in a process, see `simulator.studies.gemm.remembered`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from isa import Target
from isa.errors import Error
from simulator.chip.config import Config, load_config
from simulator.program.program import Program
from simulator.program.reader import load
from simulator.simulation.exact import exact_results
from simulator.simulation.interpreter import Executed
from simulator.simulation.reporting import report_of
from simulator.simulation.session import Session
from simulator.studies.gemm.best import Fastest, fastest
from simulator.studies.gemm.choice import tile_for
from simulator.studies.gemm.energy import LIMITED
from simulator.studies.gemm.kinds import AnyTile
from simulator.studies.gemm.remembered import remembered
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
    "best_stages": "whole",
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
        without |= {"best_tile", "best_stages", "ctas", "resident", "waves", "bound", "empty_slots_share"}
        without |= {"L2_reads_share", "path_to_L2_share", "stores_share", "device_memory_share"}
        without |= set(ENERGY) - set(TRACE_ENERGY)
        without |= {"metadata_path_share", "operand_ports_share", "issue_slots_share", "tcgen05_queue_share"}
    if TRACE not in sweep.kinds:
        without |= set(TRACE_ENERGY) - set(ENERGY)
    if not sweep.searches:
        without |= {"best_tile", "best_stages"}
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


def ask(sweep: Sweep, number: int) -> None:
    """Asks for the runs that `row` needs for a point, and for nothing else: to plan a sweep."""
    kind, point = sweep.point(number)
    for values in (point, point | sweep.relative) if sweep.relative else (point,):
        with suppress(Error, ArithmeticError, LookupError, TypeError, ValueError, AssertionError, OSError):
            chip = _without_energy(chip_of(values))
            if kind == TRACE:
                timed(str(values["trace"]), chip)
            else:
                _gemm(values, chip)


@lru_cache(maxsize=512)
def _without_energy(chip: Config) -> Config:
    return replace(chip, energy=None)


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
    best = _fastest(point, chip) if point["tile"] == BEST else None
    answer = _cost(best.tile if best is not None else _tile(str(point["tile"]), chip, **_how(point)), point, chip)
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
    if best is not None:
        values |= {"best_tile": best.name, "best_stages": best.tile.stages}
    return values | {name: getattr(kernel, name) for name in ENERGY}


def _cost(tile: AnyTile, point: Mapping[str, Any], chip: Config) -> Cost:
    return cost(
        tile,
        point["m"],
        point["n"] * point.get("batch", 1),
        point["k"],
        chip,
        batches=point.get("batches", 1),
        slices=point.get("split_k", 1),
        c_bits=point.get("c_bits", 0),
    )


def _how(point: Mapping[str, Any]) -> dict[str, Any]:
    """What a point says of its tile, beside its size, as `tile_for` takes it."""
    warps = point.get("warps", "")
    along = tuple(map(int, warps.split("x"))) if warps else None
    return {
        "type": str(point["type"]),
        "sparse": bool(point["sparse"]),
        "accumulator": point.get("accumulator", ""),
        "warps": (along[0], along[1]) if along else None,
        "stages": point.get("stages"),
        "kind": point.get("kind", ""),
        "path": point.get("path", ""),
    }


@lru_cache(maxsize=4096)
def _tile(text: str, chip: Config, **how: Any) -> AnyTile:
    return tile_for(text, config=chip, **how)


def _fastest(point: Mapping[str, Any], chip: Config) -> Fastest:
    """The fastest kernel for a point."""
    slices = point.get("split_k", 1)
    n, k = point["n"] * point.get("batch", 1), -(-point["k"] // slices)
    return fastest(m=point["m"], n=n, k=k, config=chip, parts=slices * point.get("batches", 1), **_how(point))


def _tables(assumed: tuple[str, ...]) -> str:
    """The tables of the config that nobody measured or published, as a list in one text."""
    names = [re.match(r"\[(.+?)\]", text) for text in assumed]
    return ", ".join(dict.fromkeys(name[1] for name in names if name))


# Traces


def _trace(name: str, chip: Config) -> dict[str, Any]:
    """A trace: time alone. `tflops` is that of the chip, with all SMs doing this; shares are means over sub-cores."""
    timing, executed = timed(name, chip), _executed(name, chip.target, chip.sm.warps)
    session = Session(_program(name), chip, arithmetic="none")
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


@remembered(keep=16_384)
def timed(name: str, chip: Config) -> Timing:
    """The time of a trace."""
    session = Session(_program(name), chip, arithmetic="none")
    session.check()
    return session.time(_executed(name, chip.target, chip.sm.warps))


@lru_cache(maxsize=16)
def _program(name: str) -> Program:
    return load(name)


@lru_cache(maxsize=16)
def _executed(name: str, target: Target, slots: int) -> Executed:
    """The run of a trace without results, on a chip with room for so many warps."""
    session = Session(_program(name), None, target=str(target), arithmetic="none")
    session.slots = slots
    return session.run(machines=session.fresh())
