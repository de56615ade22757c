"""What a run gave: cycles, throughput, where the time went, what was undefined, how exact the result is.

A `Report` is text for a person (`table`), JSON or CSV, and pandas DataFrames: `to_frame` is one row of numbers, so that
the reports of a study become one table with `pandas.concat`; `instructions_frame`, `stalls_frame` and `units_frame` say
what they are made of.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from simulator.arithmetic.deviation import Deviation
from simulator.chip.config import config_label
from simulator.compiler.timed_code import StallReason
from simulator.floating_point import guarded
from simulator.simulation.demand import Work
from simulator.simulation.distance import Distance, joined
from simulator.simulation.energy import Spent, told
from simulator.simulation.headline import FIGURES
from simulator.tables import Table, aligned

if TYPE_CHECKING:
    from pandas import DataFrame

REASONS = {reason.name.lower(): reason.description for reason in StallReason}
"""What the names in `Report.waits` mean."""
ARITHMETIC = {
    "chip": "bit for bit the chip's",
    "exact": "exact sums, rounded once where something reads them",
    "none": "not computed (time alone)",
}


@dataclass(frozen=True)
class Throughput:
    """Multiply-adds of the matrix instructions.

    Attributes:
        fma_per_clk_sm: M * N * K of the instructions as named, pruned products included, per cycle and SM.
        performed_fma_per_clk_sm: those that are performed (a sparse instruction performs half).
        tflops_sm: 2 * logical multiply-adds / time of one SM, 10^12 a second.
        tflops_chip: the same with every SM of the chip doing this.
    """

    fma_per_clk_sm: float
    performed_fma_per_clk_sm: float
    tflops_sm: float
    tflops_chip: float


@dataclass(frozen=True)
class Memory:
    """Use of shared memory.

    Attributes:
        accesses: instructions, warps counted one by one.
        bytes: bytes moved.
        wavefronts: cycles of 128 bytes that they took.
        conflicts: those of them that bank conflicts added.
    """

    accesses: int
    bytes: int
    wavefronts: int
    conflicts: int


@dataclass(frozen=True)
class Report:
    """The result of `simulator.run`.

    Attributes:
        trace, config: what was run on what.
        config_path: the file of a config that does not come with tcsim; empty for one that does.
        config_overrides: what was set over the config's values, "key=value; key=value"; empty if nothing was.
        cycles: from the first cycle until the last result is there.
        time_us: the same at the config's clock, in microseconds.
        instructions: executed instructions by opcode, warps counted one by one.
        utilisation: share of the cycles for which each unit was taken, 0 to 1.
        waits: for each warp, cycles by cause (REASONS); each sums to `cycles`.
        undefined: undefined cases met, by name.
        arithmetic: "chip", "exact" or "none".
        largest_ulp: largest distance of an element of D from the exact result of the same operands, in units in the
            last place; None if nothing was compared.
        instruction_error: how far all elements of D of these instructions together are from those exact results; None
            if nothing was compared.
        compared: matrix instructions compared for that.
        matrix_instructions: matrix instructions executed.
        assumed: what the result rests on although nobody measured or published it: config tables, inferred arithmetic.
        warnings: what a user should know.
        skipped_cycles: cycles not simulated one by one, because the state of the SM repeated.
        arrays: what the trace's `.store` asked for.
        exact: the same names: the exact results of the whole trace, whose accumulators are rounded once; empty where
            they were not computed.
        distances: by name, how far each of `arrays` is from the one of `exact`.
        exact_left_out: why there are no exact results; empty if there are.
        work: what a roofline needs.
        skipped_turns: turns of loops, of all warps, that were not executed for their addresses and wavefronts, because
            it was certain what they give.
        energy: what it cost, of the SMs that ran, with their share of the chip's power at rest; None without a config,
            and for one without [energy].
        ctas, chips: SMs that ran, and SMs of the chip for each of them.
        limited_clock_mhz: about the clock to which the power limit lowers the config's if all SMs do this; None where
            it does not.
    """

    trace: str
    config: str
    target: str
    warps: int
    cycles: int
    time_us: float
    instructions: dict[str, int]
    throughput: Throughput
    memory: Memory
    utilisation: dict[str, float]
    waits: dict[int, dict[str, int]]
    undefined: dict[str, int]
    arithmetic: str
    largest_ulp: int | None
    compared: int
    matrix_instructions: int
    assumed: list[str]
    warnings: list[str]
    skipped_cycles: int
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    exact: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    distances: dict[str, Distance] = field(default_factory=dict)
    exact_left_out: str = ""
    work: Work = field(default_factory=Work)
    skipped_turns: int = 0
    config_path: str = ""
    config_overrides: str = ""
    energy: Spent | None = None
    ctas: int = 1
    chips: float = 1.0
    limited_clock_mhz: float | None = None
    instruction_error: Deviation | None = None

    @property
    def energy_nj(self) -> float | None:
        """Nanojoules of the whole trace, of the SMs that ran; None where the config has no [energy]."""
        return None if self.energy is None else self.energy.nj

    @property
    def power_w(self) -> float | None:
        """Average power of the chip if all of its SMs do this, as `Throughput.tflops_chip`."""
        return None if self.energy is None or not self.time_us else self.energy.nj / self.time_us / 1e3 * self.chips

    @property
    def limited_time_us(self) -> float | None:
        """Microseconds at the clock to which the power limit lowers the config's; None where it does not."""
        return None if self.limited_clock_mhz is None else self.cycles / self.limited_clock_mhz

    @property
    def limited_tflops(self) -> float | None:
        """`Throughput.tflops_chip` at that clock."""
        time = self.limited_time_us
        return None if time is None else self.throughput.tflops_chip * self.time_us / time

    @guarded
    def pj_per_fma(self, *, performed: bool = False) -> float | None:
        """Picojoules of a multiply-add, all energy of the run counted; None without energy, or without products."""
        fma = self.work.performed_fma if performed else self.work.fma
        return None if self.energy is None or not fma else self.energy.nj * 1e3 / (fma * self.ctas)

    @property
    def config_label(self) -> str:
        """The config as texts name it: with its path, if it is not one of tcsim's own, and with what was set."""
        return config_label(self.config, self.config_path, self.config_overrides)

    @property
    def distance(self) -> Distance | None:
        """How far all arrays together are from the exact ones; None where these were not computed."""
        return joined(list(self.distances.values())) if self.distances else None

    @property
    def deviation(self) -> Deviation | None:
        """The relative, and the largest, error of all arrays together, beside the distance in ulp; None where nothing
        says what they stand for."""
        return None if self.distance is None else self.distance.error

    @guarded
    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays, of which only types and shapes, ready for JSON."""
        return {
            **{figure.key: figure.value(self) for figure in FIGURES if figure.key},
            "instructions": self.instructions,
            "shared_memory": vars(self.memory),
            "work": asdict(self.work),
            "energy": None if self.energy is None else asdict(self.energy),
            "utilisation": self.utilisation,
            "waits": {str(warp): row for warp, row in self.waits.items()},
            "undefined": self.undefined,
            "assumed": self.assumed,
            "warnings": self.warnings,
            "exact": {name: distance.to_dict() for name, distance in self.distances.items()},
            "exact_left_out": self.exact_left_out,
            "arrays": {name: {"type": str(a.dtype), "shape": list(a.shape)} for name, a in self.arrays.items()},
        }

    @guarded
    def json(self) -> str:
        """The report as one JSON object, see `as_dict`."""
        return json.dumps(self.as_dict(), indent=2)

    @guarded
    def csv(self) -> str:
        """One row for each number: section, name, value."""
        return Table(("section", "name", "value"), self._rows()).csv()

    @guarded
    def to_frame(self) -> DataFrame:
        """The numbers of the run in one row of a pandas DataFrame; shares are 0 to 1.

        Units are taken together: `tensor_share` is the mean of all tensor pipes. The columns `stall_..._share`, one for
        each cause, are parts of all warps' cycles, and sum to 1.
        """
        record = {figure.column: figure.value(self) for figure in FIGURES}
        units = self.units_frame()
        means = units.groupby("unit", sort=False)["share"].mean()
        record |= {f"{str(unit).replace(' ', '_')}_share": share for unit, share in means.items()}
        total = sum(self._all_waits().values())
        record |= {f"stall_{cause}_share": cycles / max(total, 1) for cause, cycles in self._all_waits().items()}
        return Table.of([record]).frame()

    @guarded
    def instructions_frame(self) -> DataFrame:
        """How often each instruction was executed, warps counted one by one: opcode, count."""
        return Table(("opcode", "count"), list(self.instructions.items())).frame()

    @guarded
    def stalls_frame(self) -> DataFrame:
        """Where the cycles of each warp went: warp, cause, cycles, share of the run, and what the cause means."""
        columns = ("warp", "cause", "cycles", "share", "description")
        rows = [
            (warp, cause, cycles, cycles / max(self.cycles, 1), REASONS[cause])
            for warp, row in self.waits.items()
            for cause, cycles in row.items()
        ]
        return Table(columns, rows).frame()

    @guarded
    def units_frame(self) -> DataFrame:
        """For which share of the cycles each unit was taken: place ("sub-core 0", or "" for those of the whole SM),
        unit, share."""
        rows = []
        for name, share in self.utilisation.items():
            words = name.split(" ")
            own = 2 if words[0] in ("sub-core", "SM") else 0
            rows.append((" ".join(words[:own]), " ".join(words[own:]), share))
        return Table(("place", "unit", "share"), rows).frame()

    def _rows(self) -> list[tuple[str, str, Any]]:
        table = self.as_dict()
        nested = ("instructions", "shared_memory", "utilisation", "undefined")
        rows: list[tuple[str, str, Any]] = [
            ("run", key, value) for key, value in table.items() if not isinstance(value, dict | list)
        ]
        rows += [(section, name, value) for section in nested for name, value in table[section].items()]
        rows += [
            (f"exact {name}", key, value)
            for name, distance in table["exact"].items()
            for key, value in distance.items()
            if key != "types"
        ]
        rows += [
            (f"waits of warp {warp}", cause, cycles)
            for warp, row in self.waits.items()
            for cause, cycles in row.items()
        ]
        return (
            rows + [("warning", "", text) for text in self.warnings] + [("assumed", "", text) for text in self.assumed]
        )

    @guarded
    def table(self) -> str:
        """The report as text for a person."""
        lines = [f"{self.trace} on {self.config_label} ({self.target}), {self.warps} warps", ""]
        lines += _columns(self._headline())
        lines += [
            "",
            "Instructions executed",
            *_columns([(f"{count:,}", opcode) for opcode, count in self.instructions.items()]),
        ]
        lines += [
            "",
            "Units (share of cycles taken)",
            *_columns([(f"{share:6.1%}", unit) for unit, share in self.utilisation.items()]),
        ]
        lines += ["", "Where the warps' cycles went", *self._wait_lines()]
        if self.undefined:
            lines += ["", "Undefined behaviour met (the chip's measured behaviour was followed)"]
            lines += _columns([(f"{count:,}", name) for name, count in self.undefined.items()])
        lines += [f"warning: {text}" for text in self.warnings]
        lines += [f"assumed: {text}" for text in self.assumed]
        return "\n".join(lines) + "\n"

    def _headline(self) -> list[tuple[str, str]]:
        t, m = self.throughput, self.memory
        each = "not compared"
        if self.largest_ulp is not None:
            some = self.compared < self.matrix_instructions
            of = f" (first {self.compared:,} of {self.matrix_instructions:,} matrix instructions)" if some else ""
            each = f"{self.largest_ulp:,} ulp at most" + f" ({self.instruction_error})" * bool(self.largest_ulp) + of
        shared = f"{m.accesses:,} accesses, {m.bytes:,} bytes, {m.wavefronts:,} wavefronts"
        return [
            ("cycles", f"{self.cycles:,}"),
            ("time", f"{self.time_us:,.3f} us at the config's clock"),
            *self._limited_lines(),
            ("throughput", f"{t.fma_per_clk_sm:,.1f} FMA/clk/SM as named, {t.performed_fma_per_clk_sm:,.1f} performed"),
            ("", f"{t.tflops_sm:.3f} TFLOPS of one SM, {t.tflops_chip:,.1f} TFLOPS of the chip"),
            ("shared memory", f"{shared}, {m.conflicts:,} of them bank conflicts"),
            *self._energy_lines(),
            ("arithmetic", ARITHMETIC[self.arithmetic]),
            ("each instruction from the exact one", each),
            *self._distance_lines(),
        ]

    def _limited_lines(self) -> list[tuple[str, str]]:
        """The time where the power limit lowers the clock."""
        if self.limited_time_us is None:
            return []
        clock = f"about {self.limited_clock_mhz:,.0f} MHz, to which the power limit lowers the clock if all SMs do this"
        return [("", f"{self.limited_time_us:,.3f} us, {self.limited_tflops:,.1f} TFLOPS of the chip, at {clock}")]

    def _energy_lines(self) -> list[tuple[str, str]]:
        """Energy, what took it, and what it is for a multiply-add."""
        if self.energy is None or self.power_w is None:
            return []
        return told(self.energy, self.power_w, self.pj_per_fma(), self.pj_per_fma(performed=True))

    def _distance_lines(self) -> list[tuple[str, str]]:
        """The distance of the whole trace, a row for each array."""
        if self.arithmetic != "chip":
            return []
        shown = [f"{name}: {distance}" for name, distance in self.distances.items()] or [self.exact_left_out]
        return list(zip(["whole trace from the exact one", *[""] * (len(shown) - 1)], shown, strict=True))

    def _wait_lines(self) -> list[str]:
        """A row for each warp, a column for each cause that took any cycle, and what part of all cycles each took."""
        every = self._all_waits()
        causes = [cause for cause in REASONS if every[cause]]
        rows = [[f"{warp}", *(f"{row[cause]:,}" for cause in causes)] for warp, row in self.waits.items()]
        total = max(self.cycles * len(self.waits), 1)
        last = ["all", *(f"{every[cause] / total:.1%}" for cause in causes)]
        return aligned([["warp", *causes], *rows, last], ">", widths=(6, 11), gap=" ", indent="  ")

    def _all_waits(self) -> dict[str, int]:
        """Cycles of all warps together by cause."""
        return {cause: sum(row[cause] for row in self.waits.values()) for cause in REASONS}


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    align = "><" if rows and rows[0][0][:1].strip().isdigit() else "<"
    return aligned(rows, align, indent="  ")
