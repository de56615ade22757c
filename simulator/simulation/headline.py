"""The headline of a run: its numbers and names in one list, of which JSON and DataFrames are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from simulator.arithmetic.deviation import Deviation


class Figure(NamedTuple):
    """One number or name of a run.

    Attributes:
        key: its key in JSON; empty where JSON has it in more detail.
        column: its column in the DataFrame of a run.
        value: takes it from a `Report`.
    """

    key: str
    column: str
    value: Callable[[Any], Any]


def _each(run: Any) -> Deviation:
    """The error of each instruction compared, all together; of nothing where none was."""
    return run.instruction_error or Deviation()


FIGURES = (
    Figure("trace", "trace", lambda run: run.trace),
    Figure("config", "config", lambda run: run.config),
    Figure("config_path", "config_path", lambda run: run.config_path),
    Figure("config_overrides", "config_overrides", lambda run: run.config_overrides),
    Figure("target", "target", lambda run: run.target),
    Figure("warps", "warps", lambda run: run.warps),
    Figure("cycles", "cycles", lambda run: run.cycles),
    Figure("time_us", "time_us", lambda run: run.time_us),
    Figure("limited_clock_mhz", "limited_clock_mhz", lambda run: run.limited_clock_mhz),
    Figure("limited_time_us", "limited_time_us", lambda run: run.limited_time_us),
    Figure("limited_tflops", "limited_chip_tflops", lambda run: run.limited_tflops),
    Figure("throughput_fma_per_clk_sm", "throughput_fma_per_clk_sm", lambda run: run.throughput.fma_per_clk_sm),
    Figure(
        "performed_throughput_fma_per_clk_sm",
        "performed_fma_per_clk_sm",
        lambda run: run.throughput.performed_fma_per_clk_sm,
    ),
    Figure("tflops_sm", "sm_tflops", lambda run: run.throughput.tflops_sm),
    Figure("tflops_chip", "chip_tflops", lambda run: run.throughput.tflops_chip),
    Figure("", "instructions", lambda run: sum(run.instructions.values())),
    Figure("matrix_instructions", "matrix_instructions", lambda run: run.matrix_instructions),
    Figure("", "shared_accesses", lambda run: run.memory.accesses),
    Figure("", "shared_bytes", lambda run: run.memory.bytes),
    Figure("", "shared_wavefronts", lambda run: run.memory.wavefronts),
    Figure("", "bank_conflict_wavefronts", lambda run: run.memory.conflicts),
    Figure("", "undefined", lambda run: sum(run.undefined.values())),
    Figure("energy_nj", "energy_nj", lambda run: run.energy_nj),
    Figure("power_w", "power_w", lambda run: run.power_w),
    Figure("pj_per_fma", "energy_per_fma_pj", lambda run: run.pj_per_fma()),
    Figure("pj_per_performed_fma", "energy_per_performed_fma_pj", lambda run: run.pj_per_fma(performed=True)),
    Figure("arithmetic", "arithmetic", lambda run: run.arithmetic),
    Figure("largest_ulp", "largest_error_ulp", lambda run: run.largest_ulp),
    Figure("instruction_relative_error", "instruction_relative_error", lambda run: _each(run).relative),
    Figure("instruction_sqnr_db", "instruction_sqnr_db", lambda run: _each(run).sqnr_db),
    Figure("instruction_largest_error", "instruction_largest_error", lambda run: _each(run).to_dict()["largest_error"]),
    Figure("compared", "compared_instructions", lambda run: run.compared),
    Figure("exact_elements", "exact_elements", lambda run: run.distance and run.distance.elements),
    Figure("exact_differing", "exact_differing", lambda run: run.distance and run.distance.differing),
    Figure("exact_nan", "exact_nan", lambda run: run.distance and run.distance.nan),
    Figure("exact_largest_ulp", "exact_largest_ulp", lambda run: run.distance and run.distance.largest_ulp),
    Figure("exact_relative_error", "exact_relative_error", lambda run: run.deviation and run.deviation.relative),
    Figure("exact_sqnr_db", "exact_sqnr_db", lambda run: run.deviation and run.deviation.sqnr_db),
    Figure("exact_largest_error", "exact_largest_error", lambda run: run.deviation and run.deviation.largest),
    Figure("skipped_cycles", "skipped_cycles", lambda run: run.skipped_cycles),
    Figure("skipped_turns", "skipped_turns", lambda run: run.skipped_turns),
    Figure("", "assumed_tables", lambda run: len(run.assumed)),
)
"""The headline of a run, for JSON and for DataFrames, in the order of the columns."""
