"""What a run costs in energy: counts of instructions and bytes times the config's `[energy]`.

A run is that of one SM (or of the two of a pair), so it takes that SM's share of the chip's power at rest. Accesses to
global memory are taken to hit in L2, unless who asks knows what comes from device memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from isa import MmaForm
from isa.forms.mma import is_mma
from isa.forms.record import Form, Time
from isa.types import element_type
from simulator.chip.config import Config
from simulator.chip.energy import Energy, Pair
from simulator.execute.dynamic_info import BulkFacts, Fact, FetchFacts, FetchKind, MmaFacts
from simulator.program.program import Program
from simulator.simulation.interpreter import Executed
from simulator.state.registers import WARP_SIZE

SECTOR = 32  # bytes
RANDOM = 1.0  # the activity of random operands
_PARTS = {
    Time.INTEGER: "integer",
    Time.SHUFFLE: "integer",
    Time.MULTIPLY: "multiply",
    Time.EITHER: "move",
    Time.FLOAT: "floating",
}
_KINDS = {"f16": "f16", "tf32": "tf32", "i8": "s8"}  # of tcgen05.mma; the others multiply 8-bit floats or smaller


@dataclass(frozen=True)
class Spent:
    """Energy of a run, in nanojoules, at the config's clock.

    Attributes:
        parts: by what took it: "matrix instructions", "arithmetic", "shared memory", "L2", "device memory",
            "barriers", "rest".
        activity: of the matrix operands, 0 for zeros and 1 for random numbers.
        notes: what was taken for granted.
    """

    parts: dict[str, float] = field(default_factory=dict)
    activity: float = RANDOM
    notes: tuple[str, ...] = ()

    @property
    def nj(self) -> float:
        """All of it."""
        return sum(self.parts.values())

    @property
    def shares(self) -> str:
        """What took it, the most first: "matrix instructions 61%, rest 30%, ..."; without what took less than half a
        percent."""
        parts = sorted(self.parts.items(), key=lambda part: -part[1])
        return ", ".join(f"{name} {part / self.nj:.0%}" for name, part in parts if part >= 0.005 * self.nj)


@dataclass(frozen=True)
class Counted:
    """What is counted of a run.

    Attributes:
        operations: forms, and how often all warps together executed each.
        facts: what asynchronous instructions did, and how often.
        conflicts: wavefronts that bank conflicts added.
    """

    operations: Mapping[Form, int]
    facts: Mapping[Fact, int] = field(default_factory=dict)
    conflicts: int = 0

    @classmethod
    def of(cls, program: Program, executed: Executed, conflicts: int = 0) -> Counted:
        """What a run of a program is."""
        counts: Counter[Form] = Counter()
        for op, times in program.operations:
            counts[op.instruction.form] += times
        return cls(counts, executed.work, conflicts)


def between(pair: tuple[float, float], activity: float) -> float:
    """The value for operands between zeros and random."""
    return pair[0] + (pair[1] - pair[0]) * activity


def dynamic(config: Config, counted: Counted, activity: float = RANDOM) -> Spent | None:
    """The energy of the instructions and bytes of a run, without rest; None for a config without `[energy]`.

    Args:
        activity: of the operands, see `Spent`.
    """
    table = config.energy
    if table is None:
        return None
    parts: dict[str, float] = defaultdict(float)
    notes: dict[str, None] = {}
    for form, times in counted.operations.items():
        if is_mma(form):
            parts["matrix instructions"] += times * _matrix(table, form, activity, notes)
        else:
            _other(table, form, times, activity, parts)
    for fact, times in counted.facts.items():
        _fact(table, fact, times, activity, parts, notes)
    parts["shared memory"] += counted.conflicts * between(table.conflict, activity)
    scale = table.scale(config.chip.clock_mhz)
    return Spent({name: nj * scale for name, nj in parts.items() if nj}, activity, tuple(notes))


def _matrix(table: Energy, form: MmaForm, activity: float, notes: dict[str, None]) -> float:
    found, factor = table.find(form)
    if not all(found.alike(form)):
        notes[f"energy of '{form.opcode}' from '{found.name}' by multiply-adds"] = None
    return factor * between(found.nj, activity)


def _other(table: Energy, form: Form, times: int, activity: float, parts: dict[str, float]) -> None:
    """Arithmetic, shared memory and barriers; global memory is told by facts."""
    if form.time in _PARTS:
        pair: Pair = getattr(table, _PARTS[form.time])
        parts["arithmetic"] += times * between(pair, activity)
    elif form.time in (Time.LOAD, Time.LOAD_MATRIX, Time.STORE) and form.access is not None:
        own, byte = (table.store, table.store_byte) if form.access.write else (table.load, table.load_byte)
        each = between(own, activity) + between(byte, activity) * form.access.bytes * WARP_SIZE / 1e3
        parts["shared memory"] += times * each
    elif form.time is Time.BARRIER:
        parts["barriers"] += times * table.barrier


def _fact(
    table: Energy, fact: Fact, times: int, activity: float, parts: dict[str, float], notes: dict[str, None]
) -> None:
    if isinstance(fact, FetchFacts):
        byte = table.l2_store_byte if fact.kind is FetchKind.STORE else table.l2_load_byte
        parts["L2"] += times * fact.sectors * SECTOR * between(byte, activity) / 1e3
    elif isinstance(fact, BulkFacts):
        parts["L2"] += times * fact.bytes * between(table.copied_byte, activity) / 1e3
    elif isinstance(fact, MmaFacts):
        inputs = _KINDS.get(fact.kind, "e4m3")
        known = [one for one in table.tensor if one.sparse == fact.sparse and inputs in one.inputs]
        found = max(known or list(table.tensor), key=lambda one: one.row_bytes)
        each = table.tcgen05 * between(found.nj, activity) / found.performed_fma(element_type(inputs).bits)
        parts["matrix instructions"] += times * fact.performed_fma * each
        notes[f"[energy] a multiply-add of tcgen05.mma takes {table.tcgen05:g} of one of mma"] = None


def with_rest(config: Config, spent: Spent, seconds: float, sms: float) -> Spent:
    """The same with rest: the part of the chip's power that belongs to so many SMs."""
    assert config.energy is not None
    rest = config.energy.static_w * seconds * sms / config.chip.sms * 1e9
    return Spent(spent.parts | {"rest": rest}, spent.activity, spent.notes)


def limited_clock(config: Config, power_w: float | None) -> float | None:
    """The clock in MHz to which the power limit lowers that of the config, at which a chip would take so much; None
    where it does not. Power beside that at rest grows with the clock, and with the energy of each operation there."""
    table = config.energy
    if table is None or power_w is None or power_w <= table.limit_w or table.limit_w <= table.static_w:
        return None
    moving = power_w - table.static_w
    factor: float = ((table.limit_w - table.static_w) / moving) ** (1 / (1 + table.exponent))
    return config.chip.clock_mhz * factor


def over_limit(config: Config, power_w: float) -> str:
    """What a user should know of a chip that would take more power than it may; empty where it does not."""
    table, clock = config.energy, limited_clock(config, power_w)
    if table is None or clock is None:
        return ""
    return (
        f"{power_w:,.0f} W at {config.chip.clock_mhz:,.0f} MHz are above the limit of {table.limit_w:,.0f} W: the chip "
        f"would lower its clock to about {clock:,.0f} MHz"
    )


def told(spent: Spent, power_w: float, named_pj: float | None, performed_pj: float | None) -> list[tuple[str, str]]:
    """Lines for a report: energy, what took it, and what it is for a multiply-add."""
    lines = [
        ("energy", f"{spent.nj / 1e3:,.1f} uJ, {power_w:,.0f} W of the chip if all SMs do this, random data assumed"),
        ("", f"of it {spent.shares}"),
    ]
    if named_pj is not None:
        lines.append(("", f"{named_pj:.2f} pJ a FMA as named, {performed_pj:.2f} performed"))
    return lines
