"""A GPU as the timing engine sees it: read from a TOML file in which every table names its source.

The format is described in docs/configs.md. No number of a chip stands in the code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from isa import IsaError, MmaForm, Target, parse_target
from isa.types import MATRIX_TYPES
from simulator.errors import ConfigError
from simulator.resources import folder
from simulator.timing.memory_config import L2, Hbm, Launch, Mbarrier, Memory
from simulator.timing.sequences_config import Sequences, read_sequences
from simulator.timing.tables import (
    NO_PIPE,
    NO_SCHEDULE,
    Alu,
    Barrier,
    Chip,
    Issue,
    Loop,
    Pipe,
    Schedule,
    Shared,
    Sm,
    TensorClass,
    known_kinds,
)
from simulator.timing.tcgen05_config import Tcgen05, read_tcgen05

STATUSES = ("measured", "published", "assumed")
POLICIES = ("oldest", "greedy-oldest", "greedy-round-robin", "round-robin")
T = TypeVar("T", str, int)


@dataclass(frozen=True)
class Config:
    """One GPU.

    Attributes:
        path: the file.
        tcgen05: how fast tcgen05 and mbarriers are; None for a chip without them.
        memory, mbarrier, l2, hbm, launch: global memory and what waits for it; None where the config has no such table.
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
    tcgen05: Tcgen05 | None = None
    schedule: Schedule = NO_SCHEDULE
    pipe: Pipe = NO_PIPE
    memory: Memory | None = None
    mbarrier: Mbarrier | None = None
    l2: L2 | None = None
    hbm: Hbm | None = None
    launch: Launch | None = None
    sequences: Sequences | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def tensor_class(self, form: MmaForm) -> TensorClass | None:
        """The class of a form, or None if the config has none for it."""
        return next((c for c in self.tensor if c.matches(form)), None)

    def tensor_cycles(self, form: MmaForm) -> int:
        """Cycles of a tensor pipe that an instruction takes, or the matrix instructions of its sequence; 0 for one
        without a time."""
        found = self.tensor_class(form)
        sequence = self.sequences.find(form) if self.sequences is not None and found is None else None
        if sequence is not None:
            return sum(self.tensor_cycles(part) for part in sequence.tensor)
        return found.interval if found is not None else 0

    def status(self, table: str) -> str:
        """ "measured", "published" or "assumed"."""
        return self.sources[table].split(":")[0]


_TABLES: dict[str, type] = {
    "chip": Chip,
    "sm": Sm,
    "issue": Issue,
    "loop": Loop,
    "alu": Alu,
    "barrier": Barrier,
    "shared": Shared,
}
_LATE = ("result_from", "result_until", "ports")
_OPTIONAL: dict[str, type] = {
    "schedule": Schedule,
    "pipe": Pipe,
    "memory": Memory,
    "mbarrier": Mbarrier,
    "l2": L2,
    "hbm": Hbm,
    "launch": Launch,
}
_MAY_BE_ZERO = (
    *_LATE,
    "compare",
    "fetch",
    "sparse_after_dense",
    "three_registers",
    "access",
    "cycles",
    "minimum",
    "change_latency",
    "register_latency",
    "arrival",
    "port_cycles",
    "warp_interval",
    "wavefront_interval",
    "store_latency",
    "operand_latency",
    "overlap_latency",
    "pipe_cycles",
    "write_cycles",
    "cached_cycles",
)
_TOP = ("name", "title", "target", "tensor", "tcgen05", "sequences", *_TABLES, *_OPTIONAL)


def config_names() -> list[str]:
    """Names of the configs that come with tcsim."""
    return sorted(path.stem for path in folder("configs").glob("*.toml"))


def load_config(name: str | Path) -> Config:
    """A config by the name of one that comes with tcsim, or by the path of a TOML file.

    Raises:
        ConfigError: no such config, bad TOML, unknown or missing keys, impossible values; says which and what would be
            right.
    """
    path = folder("configs") / f"{name}.toml"
    try:
        if not path.is_file() or "/" in str(name):
            path = Path(name)
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), "", f"not a TOML file: {error}", "TOML, see docs/configs.md") from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "", f"not UTF-8 text: {error}", "TOML in UTF-8") from None
    except RecursionError:
        raise ConfigError(
            str(path), "", "not a TOML file that can be read: values nested too deeply", "TOML, see docs/configs.md"
        ) from None
    except (OSError, ValueError) as error:
        near = [known for known in config_names() if known.startswith(str(name))] or get_close_matches(
            str(name), config_names(), 1
        )
        why = getattr(error, "strerror", None) or error
        hint = f", did you mean '{near[0]}'?" if near else ""
        raise ConfigError(
            str(name), "", f"no such config{hint} ({why})", f"{', '.join(config_names())}, or the path of a TOML file"
        ) from None
    return Reader(str(path), table).config()


class Reader:
    """Checks a parsed file entry by entry."""

    def __init__(self, path: str, table: dict[str, Any]) -> None:
        self.path, self.table = path, table
        self.sources: dict[str, str] = {}

    def fail(self, key: str, reason: str, legal: str = "") -> NoReturn:
        raise ConfigError(self.path, key, reason, legal)

    def config(self) -> Config:
        self.known("", self.table, _TOP)
        text = {key: self.string("", self.table, key) for key in ("name", "title", "target")}
        try:
            target = parse_target(text["target"])
        except IsaError as error:
            self.fail("target", error.reason, error.legal)
        parts = {name: self.part(name, kind, self.table.get(name)) for name, kind in _TABLES.items()}
        if parts["issue"].policy not in POLICIES:
            self.fail("issue.policy", f"unknown policy '{parts['issue'].policy}'", ", ".join(POLICIES))
        parts |= {
            name: self.part(name, kind, self.table[name]) for name, kind in _OPTIONAL.items() if name in self.table
        }
        tensor = self.tensor_classes()
        tcgen05 = read_tcgen05(self, self.table["tcgen05"]) if "tcgen05" in self.table else None
        if "sequences" in self.table:
            parts["sequences"] = self.sequences(tensor)
        return Config(
            self.path,
            text["name"],
            text["title"],
            target,
            **parts,
            tensor=tensor,
            tcgen05=tcgen05,
            sources=self.sources,
        )

    def known(self, where: str, table: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                near = get_close_matches(key, keys, 1)
                self.fail(
                    f"{where}{key}", "unknown key" + (f", did you mean '{near[0]}'?" if near else ""), ", ".join(keys)
                )

    def part(self, name: str, kind: Any, table: Any) -> Any:
        """A table of numbers and texts as the dataclass `kind`."""
        if not isinstance(table, dict):
            self.fail(
                name,
                "missing table" if table is None else "not a table",
                f"[{name}] with {', '.join(f.name for f in fields(kind))} and source",
            )
        types = {f.name: f.type for f in fields(kind) if f.name != "known"}
        self.known(f"{name}.", table, (*types, "source"))
        self.source(name, table)
        readers: dict[str, Callable[..., Any]] = {
            "int": self.integer,
            "float": self.number,
            "str": self.string,
            "bool": self.boolean,
        }
        return kind(**{key: readers[str(type_name)](f"{name}.", table, key) for key, type_name in types.items()})

    def sequences(self, tensor: tuple[TensorClass, ...]) -> Sequences:
        """`[sequences]` with what its file holds, of which every matrix instruction needs a class."""
        found: Sequences = self.part("sequences", Sequences, self.table["sequences"])
        known = sorted(path.stem for path in (folder("configs") / "sequences").glob("*.json"))
        if found.file not in known:
            self.fail("sequences.file", f"no sequences named '{found.file}'", ", ".join(known))
        path = folder("configs") / "sequences" / f"{found.file}.json"
        try:
            read = read_sequences(path)
        except (OSError, ValueError) as error:
            self.fail("sequences.file", f"{path.name}: {error}", "a file that tests/hardware/sequences.py wrote")
        for form in {form for sequence in read.values() for form in sequence.tensor}:
            if not any(c.matches(form) for c in tensor):
                self.fail(
                    "sequences.file",
                    f"no [[tensor]] class matches '{form.opcode}', which a sequence uses",
                    "a class for it",
                )
        return replace(found, known=read)

    def tensor_classes(self) -> tuple[TensorClass, ...]:
        rows = self.table.get("tensor")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            self.fail("tensor", "at least one [[tensor]] table is needed", "see docs/configs.md")
        keys = tuple(f.name for f in fields(TensorClass))
        classes: list[TensorClass] = []
        for number, row in enumerate(rows):
            where = f"tensor[{number}]."
            self.known(where, row, (*keys, "source"))
            name = self.string(where, row, "name")
            if name in {c.name for c in classes}:
                self.fail(f"{where}name", f"two tensor classes named '{name}'", "a name of its own for each")
            self.source(f"tensor {name}", row, where)
            values: dict[str, Any] = {
                "sparse": self.boolean(where, row, "sparse"),
                "blocking": self.boolean(where, {"blocking": False} | row, "blocking"),
            }
            values |= {key: self.integer(where, row, key) for key in ("rows", "row_bytes", "latency", "interval")}
            values |= {key: self.integer(where, row, key) for key in _LATE if key in row}
            values |= {key: self.types(where, row, key) for key in ("inputs", "accumulators")}
            if "stall" in row:
                values["stall"] = self.integer(where, row, "stall")
            if "ordered" in row:
                values["ordered"] = self.boolean(where, row, "ordered")
            if "kinds" in row:
                values["kinds"] = tuple(self.choices(where, row, "kinds", known_kinds()))
            classes.append(TensorClass(name, **values))
        return tuple(classes)

    def value(self, where: str, table: dict[str, Any], key: str) -> Any:
        if key not in table:
            self.fail(f"{where}{key}", "missing", f"{key} = ...")
        return table[key]

    def string(self, where: str, table: dict[str, Any], key: str) -> str:
        value = self.value(where, table, key)
        if not isinstance(value, str) or not value:
            self.fail(f"{where}{key}", f"{value!r}", "a text")
        return value

    def integer(self, where: str, table: dict[str, Any], key: str) -> int:
        value = self.value(where, table, key)
        low = 0 if key in _MAY_BE_ZERO else 1
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= 10**9:
            self.fail(f"{where}{key}", f"{value!r}", f"an integer, {low} or more")
        return value

    def boolean(self, where: str, table: dict[str, Any], key: str) -> bool:
        value = self.value(where, table, key)
        if not isinstance(value, bool):
            self.fail(f"{where}{key}", f"{value!r}", "true or false")
        return value

    def number(self, where: str, table: dict[str, Any], key: str) -> float:
        value = self.value(where, table, key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
            self.fail(f"{where}{key}", f"{value!r}", "a positive number")
        return float(value)

    def types(self, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
        value = self.value(where, table, key)
        if (
            not isinstance(value, list)
            or not value
            or any(not isinstance(v, str) or v not in MATRIX_TYPES for v in value)
        ):
            self.fail(f"{where}{key}", f"{value!r}", f"a list of element types: {', '.join(MATRIX_TYPES)}")
        return tuple(value)

    def choices(self, where: str, table: dict[str, Any], key: str, legal: Sequence[T]) -> list[T]:
        """A list of some of the legal values, none twice."""
        value = self.value(where, table, key)
        good = isinstance(value, list) and value and all(type(v) is type(legal[0]) and v in legal for v in value)
        if not good or len(set(value)) < len(value):
            self.fail(f"{where}{key}", f"{value!r}", f"a list of {', '.join(map(str, legal))}")
        return list(value)

    def source(self, name: str, table: dict[str, Any], where: str | None = None) -> None:
        key = f"{name if where is None else where.rstrip('.')}.source"
        value = table.get("source")
        if not isinstance(value, str) or value.split(":")[0] not in STATUSES or ":" not in value:
            self.fail(
                key, "missing" if value is None else f"{value!r}", "'measured: ...', 'published: ...' or 'assumed: ...'"
            )
        self.sources[name] = value
