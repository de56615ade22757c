"""The config of a GPU: all numbers that the timing engine needs, read from a TOML file whose tables name their sources.

The format is described in docs/configs.md. No number of a chip stands in the code; the legal values of a number stand
beside its field (`simulator.chip.tables` and its neighbours).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from isa import IsaError, MmaForm, Target, parse_target
from simulator.chip import tcgen05
from simulator.chip.clock_domains import WrongClockError
from simulator.chip.energy import Energy, EnergyLike, TensorEnergy
from simulator.chip.layers import WHAT_IF, read_layers, with_own_energies
from simulator.chip.memory import L2, Hbm, HbmTable, L2Table, Launch, Mbarrier, Memory, Shared
from simulator.chip.overrides import Overrides, apply, canonical, parse_overrides
from simulator.chip.sequences import Sequences, read_sequences
from simulator.chip.tables import (
    NO_PIPE,
    NO_SCHEDULE,
    Alu,
    Barrier,
    Chip,
    Fetch,
    Issue,
    Loop,
    Operands,
    Pipe,
    Registers,
    Schedule,
    Sm,
    TensorClass,
)
from simulator.errors import ConfigError
from simulator.floating_point import guarded
from simulator.resources import folder
from simulator.toml_tables import Tables, fields_of, slug

STATUSES = ("measured", "published", "assumed")


def config_label(name: str, path: str = "", overrides: str = "") -> str:
    """How texts name a config: "h100_sxm"; with its path if it has one of its own, and with what was set: "h100_sxm
    (mine.toml) with chip.sms=66"."""
    label = f"{name} ({path})" if path else name
    return f"{label} with {overrides}" if overrides else label


@dataclass(frozen=True)
class Config:
    """The numbers of one GPU.

    Attributes:
        path: the file that it was read from.
        overrides: what was set over the file's values, as texts "key=value".
        bases: the files whose values it has where it says nothing itself, the nearest first.
        tcgen05: how fast tcgen05 and mbarriers are; None for a chip without them.
        memory, mbarrier, l2, hbm, launch: global memory and what waits for it, in cycles of the SMs at the config's
            clock; None where the config has no such table.
        operands, registers: the ports through which tensor pipes, and how instructions, read registers, likewise.
        fetch: how a warp that has jumped gets its instructions, likewise.
        energy: what instructions, bytes and idle seconds cost; None where the config has no [energy].
        sources: for each table, by its name, where its numbers come from ("measured: ...", "published: ...", "assumed:
            ...").
    """

    path: str
    name: str
    title: str
    target: Target
    chip: Chip
    sm: Sm
    issue: Issue
    loop: Loop
    alu: Alu
    barrier: Barrier
    shared: Shared
    tensor: tuple[TensorClass, ...]
    tcgen05: tcgen05.Tcgen05 | None = None
    schedule: Schedule = NO_SCHEDULE
    pipe: Pipe = NO_PIPE
    memory: Memory | None = None
    mbarrier: Mbarrier | None = None
    l2: L2 | None = None
    hbm: Hbm | None = None
    launch: Launch | None = None
    operands: Operands | None = None
    registers: Registers | None = None
    fetch: Fetch | None = None
    sequences: Sequences | None = None
    energy: Energy | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()

    @property
    def own_path(self) -> str:
        """The file of a config that does not come with tcsim; empty for one that does."""
        return "" if Path(self.path).resolve().parent == folder("configs").resolve() else self.path

    @property
    def label(self) -> str:
        """How texts name the config, see `config_label`."""
        return config_label(self.name, self.own_path, self.overridden)

    @property
    def overridden(self) -> str:
        """What was set over the file's values, in one text: "chip.sms=66; l2.read_bytes=x2"; empty if nothing was."""
        return "; ".join(self.overrides)

    @property
    def changed(self) -> tuple[str, ...]:
        """The tables that `--set`, or a file over its base, changes without a source of their own."""
        return tuple(table for table, source in self.sources.items() if source.startswith(WHAT_IF))

    def __hash__(self) -> int:
        return hash((self.path, self.name, self.overrides))

    def tensor_class(self, form: MmaForm) -> TensorClass | None:
        """The class of matrix instructions that a form belongs to; None if the config has none for it."""
        known = self._classes.get(id(form))
        if known is None or known[0] is not form:  # of a copy of the config in another process, identities are others
            known = self._classes[id(form)] = form, next((c for c in self.tensor if c.matches(form)), None)
        return known[1]

    @cached_property
    def _classes(self) -> dict[int, tuple[MmaForm, TensorClass | None]]:
        """Forms that have been looked up, by their identity, with their classes."""
        return {}

    def tensor_cycles(self, form: MmaForm) -> int:
        """Cycles for which an instruction, or the matrix instructions of its sequence, take a tensor pipe; 0 for one
        without a time."""
        tensor = self.tensor_class(form)
        sequence = self.sequences.find(form) if self.sequences is not None and tensor is None else None
        if sequence is not None:
            return sum(self.tensor_cycles(part) for part in sequence.tensor)
        return self.interval(tensor) if tensor is not None else 0

    def path_cycles(self, form: MmaForm) -> tuple[int, int]:
        """Cycles for which an instruction, or the matrix instructions of its sequence, take what all tensor pipes of a
        sub-core share: the path of metadata, and ports of the register file."""
        tensor = self.tensor_class(form)
        sequence = self.sequences.find(form) if self.sequences is not None and tensor is None else None
        if sequence is not None:
            paths = [self.path_cycles(part) for part in sequence.tensor]
            return sum(metadata for metadata, _ in paths), sum(ports for _, ports in paths)
        return (self.sm.metadata_cycles * tensor.sparse, self.reading(tensor)) if tensor is not None else (0, 0)

    def interval(self, tensor: TensorClass) -> int:
        """Cycles between two instructions of a class on one tensor pipe: its own, or those with other ports."""
        ports = self.operands
        if ports is None or not tensor.multiply or ports.registers == ports.measured:
            return tensor.interval
        before = max(tensor.multiply, ports.cycles(tensor.words, ports.measured))
        after = max(tensor.multiply, ports.cycles(tensor.words, ports.registers))
        return after + tensor.interval - before if tensor.interval >= before else min(tensor.interval, after)

    @property
    def reading_stages(self) -> int:
        """Stages in which instructions read their registers; 0 where the config says nothing about them, and for a chip
        that issues more than one instruction in a cycle, of which no registers were measured."""
        return self.registers.stages if self.registers is not None and self.issue.width == 1 else 0

    def reads_in_banks(self, tensor: TensorClass) -> bool:
        """Whether instructions of a class read their registers in the cycles that were measured: not with other ports
        or more tensor pipes, and not if they follow each other sooner than these cycles allow."""
        ports, interval = self.operands, self.interval(tensor)
        own = self.sm.tensor_pipes > 1 or (ports is not None and ports.registers != ports.measured)
        cycles = {*tensor.even, *tensor.odd}
        return not own and cycles.isdisjoint({interval * tensor.sparse, *(cycle + interval for cycle in cycles)} - {0})

    def reading(self, tensor: TensorClass) -> int:
        """Cycles for which an instruction of a class takes ports that all tensor pipes of a sub-core share; 0 without
        such ports."""
        ports = self.operands
        return ports.cycles(tensor.words, ports.registers) if ports is not None and ports.shared else 0

    def status(self, table: str) -> str:
        """How the numbers of a table are known: "measured", "published" or "assumed"."""
        return self.sources[table].split(":")[0]


_REQUIRED: dict[str, type] = {
    "chip": Chip,
    "sm": Sm,
    "issue": Issue,
    "loop": Loop,
    "alu": Alu,
    "barrier": Barrier,
    "shared": Shared,
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
    "registers": Registers,
    "fetch": Fetch,
}


def config_names() -> list[str]:
    """Names of the configs that come with tcsim."""
    return sorted(path.stem for path in folder("configs").glob("*.toml"))


@guarded
def load_config(name: str | Path | Config, overrides: Overrides = ()) -> Config:
    """A config by the name of one that comes with tcsim, or by the path of a TOML file.

    Args:
        name: its name or path; or a config that was loaded, to set more of it.
        overrides: what to set over its values: texts such as "tensor.sparse_full_k.interval=4", or values by key
            ({"chip.sms": 66}). Tables that this changes count as assumed.

    Raises:
        ConfigError: no such config, bad TOML, unknown or missing keys, impossible values; says which and what would be
            right.
    """
    if isinstance(name, Config):
        return _loaded_with(name, overrides)
    return resolve(name, overrides)[0]


def resolve(name: str | Path, overrides: Overrides = ()) -> tuple[Config, Tables, dict[str, tuple[str, Any]]]:
    """A config, its tables as one file would have them, and by the path of each table its title among the sources and
    its values; arguments and errors as `load_config`."""
    tables, bases = read_layers(name, folder("configs"))
    if bases:
        load_config(bases[0])  # an error that is the base's is said of the base
    reader = _Reader(tables)
    config = replace(reader.config(), bases=bases)  # what is wrong in the file itself is said of the file
    given = parse_overrides(overrides, config.label)
    if not given:
        return config, tables, reader.records
    named = replace(config, overrides=canonical(given))
    try:
        reader = _Reader(apply(tables, given))
        config = reader.config()
    except ConfigError as error:
        raise ConfigError(named.label, error.key, error.reason, error.legal) from None
    return replace(config, bases=bases, overrides=named.overrides), reader.tables, reader.records


def _loaded_with(config: Config, overrides: Overrides) -> Config:
    """A loaded config with more that is set."""
    more = parse_overrides(overrides, config.label)
    if not more:
        return config
    if load_config(config.path, config.overrides) != config:
        reason = "values of a config that was changed since it was loaded cannot be set"
        raise ConfigError(
            config.label, next(iter(more)), reason, "load_config(name, overrides), or dataclasses.replace"
        )
    return load_config(config.path, parse_overrides(config.overrides, config.label) | more)


@dataclass(frozen=True)
class _Heading:
    """The entries at the top of a config, outside of any table."""

    name: str
    title: str
    target: str


class _Reader:
    """Reads the tables of a config, each with its source.

    Attributes:
        sources: for each table that was read, where its numbers come from.
        records: for each table, by the path that keys have, its title among the sources, and its values.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.sources: dict[str, str] = {}
        self.records: dict[str, tuple[str, Any]] = {}

    def config(self) -> Config:
        """The whole config."""
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
        return Config(tables.path, heading.name, heading.title, target, **parts, sources=self.sources)

    def in_cycles(self, where: str, table: L2Table | HbmTable, chip: Chip) -> L2 | Hbm:
        """What has a clock of its own, in cycles of the SMs."""
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
        parts = {"copy": tcgen05.Copy, "tmem": tcgen05.Tmem, "mbarrier": tcgen05.Mbarrier}
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
        """Reads `[energy]` and its `[[energy.tensor]]`, or takes that of another config, scaled."""
        if isinstance(self.tables.values["energy"], Mapping) and "like" in self.tables.values["energy"]:
            scaled: EnergyLike = self.part(EnergyLike, "energy")
            other = with_own_energies(scaled.like) if scaled.like in config_names() else None
            if other is None:
                legal = ", ".join(name for name in config_names() if with_own_energies(name) is not None)
                self.tables.fail("energy.like", f"no [energy] of its own in '{scaled.like}'", legal)
            return _Reader(other).energy().like(scaled)
        own: Energy = self.part(Energy, "energy", also=("tensor",))
        if abs(sum(own.weights) - 1) > 0.001:
            self.tables.fail("energy.weights", f"a sum of {sum(own.weights):.3f}", "four parts of 1")
        return replace(own, tensor=tuple(self.rows(TensorEnergy, "energy.tensor")))

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
            self.tables.fail(key, f"{path.name}: {error}", "a file that tests/hardware/sequences.py wrote")
        for form in {form for sequence in by_opcode.values() for form in sequence.tensor}:
            if not any(c.matches(form) for c in tensor):
                reason = f"no [[tensor]] class matches '{form.opcode}', which a sequence uses"
                self.tables.fail(key, reason, "a class for it")
        return replace(table, known=by_opcode)
