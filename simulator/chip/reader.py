"""Reads the tables of a config, and refuses what is unknown, missing or impossible in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isa import IsaError, parse_target
from simulator.chip import tcgen05
from simulator.chip.cluster import ClusterTable
from simulator.chip.energy import Energy, EnergyLike, TensorEnergy, WgmmaEnergy
from simulator.chip.layers import with_own_energies
from simulator.chip.memory import L2, Hbm, HbmTable, L2Table, Launch, Mbarrier, Memory, Shared, WrongClockError
from simulator.chip.sequences import Sequences, read_sequences
from simulator.chip.tables import (
    NO_SCHEDULE,
    Alu,
    Barrier,
    Chip,
    Issue,
    Loop,
    Operands,
    Pipe,
    Registers,
    Schedule,
    Sm,
    TensorClass,
)
from simulator.chip.wgmma import Wgmma
from simulator.resources import folder
from simulator.toml_tables import Tables, fields_of, slug

STATUSES = ("measured", "published", "assumed")
"""How the numbers of a table can be known; its source begins with one of these."""

_REQUIRED: dict[str, type] = {
    "chip": Chip,
    "sm": Sm,
    "issue": Issue,
    "loop": Loop,
    "alu": Alu,
    "barrier": Barrier,
    "shared": Shared,
    "registers": Registers,
}
_OPTIONAL: dict[str, type] = {
    "schedule": Schedule,
    "pipe": Pipe,
    "memory": Memory,
    "mbarrier": Mbarrier,
    "l2": L2Table,
    "hbm": HbmTable,
    "launch": Launch,
    "operands": Operands,
    "wgmma": Wgmma,
    "cluster": ClusterTable,
}


@dataclass(frozen=True)
class _Heading:
    """The entries at the top of a config, outside of any table."""

    name: str
    title: str
    target: str


class Reader:
    """Reads the tables of a config, each with its source.

    Args:
        tables: the config, with the values of its bases.
        names: the configs that come with tcsim, whose `[energy]` the config may refer to.

    Attributes:
        sources: for each table that was read, where its numbers come from.
        records: for the path of each table, as keys have it, its title among the sources and its record.
    """

    def __init__(self, tables: Tables, names: Sequence[str]) -> None:
        self.tables, self.names = tables, names
        self.sources: dict[str, str] = {}
        self.records: dict[str, tuple[str, Any]] = {}

    def read(self) -> dict[str, Any]:
        """The attributes of `Config` that the file has.

        Raises:
            ConfigError: unknown or missing keys, impossible values.
        """
        tables = self.tables
        heading = tables.record(_Heading, "", also=("tensor", "tcgen05", "sequences", "energy", *_REQUIRED, *_OPTIONAL))
        try:
            target = parse_target(heading.target)
        except IsaError as error:
            tables.fail("target", error.reason, error.legal)
        kinds = _REQUIRED | {name: kind for name, kind in _OPTIONAL.items() if name in tables.values}
        parts = {name: self.part(kind, name) for name, kind in kinds.items()}
        parts |= {name: self.in_cycles(name, parts[name], parts["chip"]) for name in ("l2", "hbm") if name in parts}
        parts["tensor"] = tuple(self.rows(TensorClass, "tensor"))
        schedule: Schedule = parts.get("schedule", NO_SCHEDULE)
        if schedule.nop > schedule.stall:  # a wait would grow as fast as NOPs fill it
            tables.fail("schedule.nop", str(schedule.nop), f"at most the longest wait, stall = {schedule.stall}")
        if "tcgen05" in tables.values:
            parts["tcgen05"] = self.tcgen05()
        if "sequences" in tables.values:
            parts["sequences"] = self.sequences(parts["tensor"])
        if "energy" in tables.values:
            parts["energy"] = self.energy()
        parts |= {"path": tables.path, "name": heading.name, "title": heading.title, "target": target}
        return parts | {"sources": self.sources}

    def in_cycles(self, where: str, table: L2Table | HbmTable, chip: Chip) -> L2 | Hbm:
        """A table of a unit with a clock of its own, in cycles of the SMs."""
        try:
            return table.at(chip.clock_mhz)
        except WrongClockError as error:
            self.tables.fail(f"{where}.{error.key}", error.reason, error.legal)

    def part(self, kind: type, where: str, values: Any = None, *, title: str = "", also: tuple[str, ...] = ()) -> Any:
        """Reads one table, and notes its source under its title."""
        values = self.tables.find(where) if values is None else values
        if isinstance(values, Mapping):
            self.tables.known(where, values, (*fields_of(kind), *also, "source"))
            self.source(title or where, where, values)
        record: Any = self.tables.record(kind, where, values, also=(*also, "source"))
        name = getattr(record, "name", "") if title else ""  # of a row
        place = f"{title.removesuffix(name).strip().replace(' ', '.')}.{slug(name)}" if name else where
        self.records[place] = title or where, record
        return record

    def rows(self, kind: type, where: str) -> list[Any]:
        """Reads an array of tables, each of which has a name of its own and a source."""
        parts: list[Any] = []
        for place, row in self.tables.rows(where):
            self.tables.known(place, row, (*fields_of(kind), "source"))
            name = self.tables.value(place, row, "name", str)
            if name in {other.name for other in parts}:
                self.tables.fail(f"{place}.name", f"two tables of {where} named '{name}'", "a name of its own for each")
            parts.append(self.part(kind, place, row, title=f"{where.replace('.', ' ')} {name}"))
        return parts

    def source(self, title: str, where: str, values: Mapping[str, Any]) -> None:
        """Notes where the numbers of a table come from."""
        value = values.get("source")
        if not isinstance(value, str) or value.split(":")[0] not in STATUSES or ":" not in value:
            reason = "missing" if value is None else f"{value!r}"
            self.tables.fail(f"{where}.source", reason, "'measured: ...', 'published: ...' or 'assumed: ...'")
        self.sources[title] = value

    def tcgen05(self) -> tcgen05.Tcgen05:
        """Reads `[tcgen05]` and the tables within it."""
        parts = {"copy": tcgen05.Copy, "tmem": tcgen05.Tmem, "mbarrier": Mbarrier}
        queue = self.part(tcgen05.Queue, "tcgen05", also=("kind", "shape", "sparse", *parts))
        read = {name: self.part(kind, f"tcgen05.{name}") for name, kind in parts.items()}
        kinds = tuple(self.rows(tcgen05.Kind, "tcgen05.kind"))
        shapes = tuple(self.rows(tcgen05.Shape, "tcgen05.shape"))
        for number, shape in enumerate(shapes):
            legal = tcgen05.ROWS[shape.cta_group]
            if not set(shape.rows) <= set(legal):
                reason, right = f"{list(shape.rows)}", f"a list of {', '.join(map(str, legal))}"
                self.tables.fail(f"tcgen05.shape[{number}].rows", reason, right)
        sparse = tuple(self.rows(tcgen05.Sparse, "tcgen05.sparse"))
        return tcgen05.Tcgen05(queue, kinds, shapes, sparse, **read)

    def energy(self) -> Energy:
        """Reads `[energy]`, `[[energy.tensor]]` and `[[energy.wgmma]]`, or takes those of another config, scaled."""
        if isinstance(self.tables.values["energy"], Mapping) and "like" in self.tables.values["energy"]:
            scaled: EnergyLike = self.part(EnergyLike, "energy")
            other = with_own_energies(scaled.like) if scaled.like in self.names else None
            if other is None:
                legal = ", ".join(name for name in self.names if with_own_energies(name) is not None)
                self.tables.fail("energy.like", f"no [energy] of its own in '{scaled.like}'", legal)
            return Reader(other, self.names).energy().like(scaled)
        own: Energy = self.part(Energy, "energy", also=("tensor", "wgmma"))
        if abs(sum(own.weights) - 1) > 0.001:
            self.tables.fail("energy.weights", f"a sum of {sum(own.weights):.3f}", "four parts of 1")
        tensor = self.rows(TensorEnergy, "energy.tensor")
        wgmma = self.rows(WgmmaEnergy, "energy.wgmma") if "wgmma" in self.tables.values["energy"] else ()
        return replace(own, tensor=tuple(tensor), wgmma=tuple(wgmma))

    def sequences(self, tensor: tuple[TensorClass, ...]) -> Sequences:
        """Reads `[sequences]` and the file that it names; every matrix instruction in the file must have a class."""
        table: Sequences = self.part(Sequences, "sequences")
        key, names = "sequences.file", sorted(path.stem for path in (folder("configs") / "sequences").glob("*.json"))
        if table.file not in names:
            self.tables.fail(key, f"no sequences named '{table.file}'", ", ".join(names))
        path = folder("configs") / "sequences" / f"{table.file}.json"
        try:
            by_opcode = read_sequences(path)
        except (OSError, ValueError) as error:
            self.tables.fail(key, f"{path.name}: {error}", "a file that measurements/sequences.py wrote")
        for form in {form for sequence in by_opcode.values() for form in sequence.tensor}:
            if not any(c.matches(form) for c in tensor):
                reason = f"no [[tensor]] class matches '{form.opcode}', which a sequence uses"
                self.tables.fail(key, reason, "a class for it")
        return replace(table, known=by_opcode)
