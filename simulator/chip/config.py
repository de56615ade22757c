"""The config of a GPU: all numbers that the timing model needs, read from a TOML file whose tables name their sources.

docs/configs.md describes the format. The code has no number of a chip; it has the legal values of each number, beside
its field in `simulator.chip.tables` and the modules next to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from isa import MmaForm, Target
from simulator.chip import tcgen05
from simulator.chip.cluster import ClusterTable
from simulator.chip.energy import Energy
from simulator.chip.layers import WHAT_IF, read_layers
from simulator.chip.memory import L2, Hbm, Launch, Mbarrier, Memory, Shared
from simulator.chip.overrides import Overrides, apply, canonical, parse_overrides
from simulator.chip.reader import Reader
from simulator.chip.sequences import Sequences
from simulator.chip.tables import (
    NO_PIPE,
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
from simulator.errors import ConfigError
from simulator.floating_point import guarded
from simulator.resources import folder
from simulator.toml_tables import Tables


def config_label(name: str, path: str = "", overrides: str = "") -> str:
    """The text that names a config: its name, the path of a user's own file, and what was set, such as "h100_sxm
    (mine.toml) with chip.sms=66"."""
    label = f"{name} ({path})" if path else name
    return f"{label} with {overrides}" if overrides else label


@dataclass(frozen=True)
class Config:
    """The numbers of one GPU.

    Attributes:
        path: the file that it was read from.
        name, title, target: its short name, the name of the chip, and its compute capability.
        chip .. tensor: the tables that every config has.
        tcgen05: times of tcgen05 and of mbarriers; None for a chip without them.
        memory, mbarrier, l2, hbm, launch: times of global memory and of launches, in cycles of the SMs at the config's
            clock; None where the config has no such table.
        operands: the ports through which tensor pipes read registers; None where the config has no such table.
        sequences: what ptxas writes for instructions that the chip does not have; None where the config has no such
            table.
        wgmma: times of `wgmma`; None where the config has no such table.
        cluster: what CTAs of a cluster do with each other; None where the config has no such table.
        energy: what instructions, bytes and idle seconds cost; None where the config has no such table.
        overrides: what was set over the file's values, as texts "key=value".
        bases: the files that give the values which the file itself does not have, the nearest first.
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
    registers: Registers
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
    sequences: Sequences | None = None
    energy: Energy | None = None
    wgmma: Wgmma | None = None
    cluster: ClusterTable | None = None
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
        """The class of each form that has been looked up, by the identity of the form."""
        return {}

    def _classes_run(self, form: MmaForm) -> list[TensorClass]:
        """The class of an instruction, or those of the matrix instructions of its sequence; empty for neither."""
        tensor = self.tensor_class(form)
        sequence = self.sequences.find(form) if self.sequences is not None and tensor is None else None
        if sequence is not None:
            return [one for part in sequence.tensor for one in self._classes_run(part)]
        return [tensor] if tensor is not None else []

    def tensor_cycles(self, form: MmaForm) -> int:
        """Cycles for which an instruction, or the matrix instructions of its sequence, occupy a tensor pipe; 0 for an
        instruction that the config does not have."""
        return sum(self.interval(tensor) for tensor in self._classes_run(form))

    def path_cycles(self, form: MmaForm) -> tuple[int, int]:
        """Cycles for which an instruction, or the matrix instructions of its sequence, occupy the path of metadata and
        the ports of the register file that all tensor pipes of a sub-core share."""
        run = self._classes_run(form)
        return sum(self.sm.metadata_cycles * one.sparse for one in run), sum(self.reading(one) for one in run)

    def interval(self, tensor: TensorClass) -> int:
        """Cycles between two instructions of a class on one tensor pipe, with the read ports that the config has."""
        ports = self.operands
        if ports is None or not tensor.multiply or ports.registers == ports.measured:
            return tensor.interval
        before = max(tensor.multiply, ports.cycles(tensor.words, ports.measured))
        after = max(tensor.multiply, ports.cycles(tensor.words, ports.registers))
        return after + tensor.interval - before if tensor.interval >= before else min(tensor.interval, after)

    @property
    def reading_stages(self) -> int:
        """Stages in which instructions read their registers. 0 for a chip that issues more than one instruction in a
        cycle: no such chip was measured."""
        return self.registers.stages if self.issue.width == 1 else 0

    def reads_in_banks(self, tensor: TensorClass) -> bool:
        """Whether instructions of a class read their registers in the cycles that were measured. They do not with other
        ports or more tensor pipes than the measured chip has, or if they issue sooner than these cycles allow."""
        ports, interval = self.operands, self.interval(tensor)
        own = self.sm.tensor_pipes > 1 or (ports is not None and ports.registers != ports.measured)
        cycles = {*tensor.even, *tensor.odd}
        return not own and cycles.isdisjoint({interval * tensor.sparse, *(cycle + interval for cycle in cycles)} - {0})

    def reading(self, tensor: TensorClass) -> int:
        """Cycles for which an instruction of a class occupies ports that all tensor pipes of a sub-core share; 0
        without such ports."""
        ports = self.operands
        return ports.cycles(tensor.words, ports.registers) if ports is not None and ports.shared else 0

    def status(self, table: str) -> str:
        """How the numbers of a table are known: "measured", "published" or "assumed"."""
        return self.sources[table].split(":")[0]


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
    """Reads a config; arguments and errors as `load_config`.

    Returns:
        the config; its tables, as one file would have them; and for the path of each table, its title among the sources
        and its record.
    """
    tables, bases = read_layers(name, folder("configs"))
    if bases:
        load_config(bases[0])  # so that an error in the base names the base
    reader = Reader(tables, config_names())
    config = Config(**reader.read(), bases=bases)  # so that an error in the file names the file, and not overrides
    given = parse_overrides(overrides, config.label)
    if not given:
        return config, tables, reader.records
    named = replace(config, overrides=canonical(given))
    try:
        reader = Reader(apply(tables, given), config_names())
        config = Config(**reader.read())
    except ConfigError as error:
        raise ConfigError(named.label, error.key, error.reason, error.legal) from None
    return replace(config, bases=bases, overrides=named.overrides), reader.tables, reader.records


def _loaded_with(config: Config, overrides: Overrides) -> Config:
    """A loaded config with more overrides."""
    more = parse_overrides(overrides, config.label)
    if not more:
        return config
    if load_config(config.path, config.overrides) != config:
        reason = "values of a config that was changed since it was loaded cannot be set"
        raise ConfigError(
            config.label, next(iter(more)), reason, "load_config(name, overrides), or dataclasses.replace"
        )
    return load_config(config.path, parse_overrides(config.overrides, config.label) | more)
