"""Reads TOML tables into dataclasses: configs of chips and campaigns of faults.

A table of a file is a frozen dataclass. What its values may be stands beside each field, as `Annotated`:

    @dataclass(frozen=True)
    class Port:
        \"\"\"`[port]`: ...\"\"\"

        width: Annotated[int, Between(1, 1024, "bytes")]        # 0 is refused: the minimum says so
        delay: Annotated[int, Between(0, 10_000, "cycles")] = 0  # a default: the key may be left out
        policy: Annotated[str, Choice(("oldest", "round-robin"))] = "oldest"
        rows: tuple[Annotated[int, Choice((64, 128))], ...] = (64,)

    tables = read_toml("h100_sxm", folder("configs"), "config", "docs/configs.md")
    port = tables.record(Port, "port")                  # [port]
    ports = tables.records(Port, "port")                # [[port]], each with its place: "port[0]", "port[1]"

Types: int, float, str, bool, tuples of them (lists in the file: `tuple[X, ...]` of any length but none, no value twice;
`tuple[X, Y]` of just that), unions of these, and `None` for what may only be left out. A field with
`metadata={"toml": False}` is none of the file's. A wrong file raises `ConfigError`, which names the file, the key and
what would be right.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from isa.arguments import described
from simulator.errors import ConfigError, did_you_mean
from simulator.inputs import InputError, input_path, read_text

T = TypeVar("T")
MOST_TOML = 1 << 22  # bytes of a file; the largest that comes with tcsim has a fiftieth of them
_LARGEST = 2**63 - 1
_MOST_PARTS = 64
_LONG_KEY = re.compile(rf"""(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_MOST_PARTS}}}""")
"""So many parts with points between them: a key of TOML; the longest of a config has 3."""


@dataclass(frozen=True)
class Between:
    """The numbers from `minimum` to `maximum`. With `exclusive`, the minimum itself is excluded (for floats)."""

    minimum: float
    maximum: float
    unit: str = ""
    exclusive: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value lies within the bounds."""
        return self.minimum <= value <= self.maximum and not (self.exclusive and value == self.minimum)


@dataclass(frozen=True)
class Choice:
    """One of these values; `title` describes them in words."""

    values: tuple[Any, ...]
    title: str = ""


class WrongValueError(Exception):
    """A value that a field cannot have. `Tables` knows where in the file the value is, and makes a `ConfigError` of
    it."""


@dataclass(frozen=True)
class Tables:
    """The parsed tables of a file.

    Attributes:
        path: the file, for errors.
        values: what it holds.
        named: whether errors name rows of arrays of tables by their names ("port.left") and not by their numbers
            ("port[0]"), because their order is not that of one file.
    """

    path: str
    values: Mapping[str, Any]
    named: bool = False

    def fail(self, key: str, reason: str, legal: str = "") -> NoReturn:
        """Raises ConfigError about an entry, named by its dotted path."""
        raise ConfigError(self.path, key, reason, legal)

    def known(self, where: str, values: Mapping[str, Any], keys: Iterable[str]) -> None:
        """Raises ConfigError for a key that is none of these."""
        legal = tuple(keys)
        for key in values:
            if key not in legal:
                self.fail(_join(where, key), f"unknown key{did_you_mean(key, legal)}", ", ".join(legal))

    def find(self, where: str) -> Any:
        """The value at a dotted path; None if there is none."""
        value: Any = self.values
        for part in where.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def record(self, kind: type[T], where: str, values: Any = None, *, also: tuple[str, ...] = (), **given: Any) -> T:
        """A table as an instance of the dataclass `kind`.

        Args:
            kind: the dataclass.
            where: the dotted path of the table; "" for the whole file.
            values: the table, if it is not the one at `where`.
            also: keys that the table may have beside the fields; others read them.
            given: fields that do not come from the table.
        """
        make: Any = kind
        if values is None:
            values = self.find(where) if where else self.values
        hints = {name: hint for name, hint in fields_of(make).items() if name not in given}
        if not isinstance(values, Mapping):
            legal = f"[{where}] with {', '.join((*hints, *also))}"
            self.fail(where, "missing table" if values is None else "not a table", legal)
        self.known(where, values, (*hints, *also))
        optional = _optional(make)
        fields = {
            name: self.value(where, values, name, hint)
            for name, hint in hints.items()
            if name in values or name not in optional
        }
        record: T = make(**fields, **given)
        return record

    def records(
        self, kind: type[T], where: str, *, also: tuple[str, ...] = (), optional: bool = False
    ) -> list[tuple[str, T]]:
        """An array of tables, with the place of each: `[("port[0]", Port(...)), ...]`. It has at least one table,
        unless it is optional."""
        return [(place, self.record(kind, place, row, also=also)) for place, row in self.rows(where, optional=optional)]

    def rows(self, where: str, *, optional: bool = False) -> list[tuple[str, Mapping[str, Any]]]:
        """The tables of an array of tables as plain values, with the place of each."""
        rows = self.find(where)
        if rows is None and optional:
            return []
        if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
            self.fail(where, f"at least one [[{where}]] table is needed", "see the documentation of the file's format")
        names = [slug(str(row.get("name", ""))) if self.named else "" for row in rows]
        return [
            (f"{where}.{name}" if name else f"{where}[{number}]", row)
            for number, (name, row) in enumerate(zip(names, rows, strict=True))
        ]

    def value(self, where: str, values: Mapping[str, Any], key: str, hint: Any) -> Any:
        """One entry, converted to the type of its field."""
        if key not in values:
            self.fail(_join(where, key), "missing", f"{key} = ..., {legal_values(hint)}")
        try:
            return convert(values[key], hint)
        except WrongValueError:
            self.fail(_join(where, key), f"{values[key]!r}", legal_values(hint))


def slug(name: str) -> str:
    """How a dotted path names a row: its name in lower case, with `_` for all that is no letter or digit."""
    return "_".join("".join(c if c.isalnum() and c.isascii() else " " for c in name.lower()).split())


def read_toml(name: str | Path, shipped: Path, what: str, guide: str) -> Tables:
    """The tables of a file, given by its path, or by the name of one that comes with tcsim.

    Args:
        name: the name or path.
        shipped: the folder of the files that come with tcsim.
        what: what such a file is, in one word.
        guide: the document that describes its format.

    Raises:
        ConfigError: no such file, or one that is not TOML.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise ConfigError("", "", f"{described(name)} in place of a {what}", f"its name or path, see {guide}")
    legal = f"TOML, see {guide}"
    path = shipped / f"{name}.toml"
    try:
        if not path.is_file() or "/" in str(name):
            path = input_path(name, legal)
    except (InputError, OSError, ValueError) as error:  # a name that no file can have
        why = error.reason if isinstance(error, InputError) else getattr(error, "strerror", None) or str(error)
        names = sorted(file.stem for file in shipped.glob("*.toml"))
        begun = [known for known in names if known.startswith(str(name))]
        hint = f", did you mean '{begun[0]}'?" if begun else did_you_mean(str(name), names)
        because = "" if "No such file" in why else f" ({why})"
        known = f"{', '.join(names)}, or the path of a TOML file"
        raise ConfigError(str(name), "", f"no such {what}{hint}{because}", known) from None
    try:
        text = read_text(path, legal, MOST_TOML)
    except InputError as error:
        raise ConfigError(str(path), "", error.reason, error.legal) from None
    if _has_long_key(text):
        raise ConfigError(str(path), "", f"a key of {_MOST_PARTS} parts or more", legal)
    try:
        return Tables(str(path), _parsed(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), "", f"not a TOML file: {error}", legal) from None
    except (RecursionError, ValueError) as error:  # a number of thousands of digits
        why = "values nested too deeply" if isinstance(error, RecursionError) else str(error).partition(":")[0]
        reason = f"not a TOML file that can be read: {why}"
        raise ConfigError(str(path), "", reason, legal) from None


@lru_cache(maxsize=32)
def _has_long_key(text: str) -> bool:
    """Whether a key has very many parts: the time that tomllib takes grows with the square of them."""
    return _LONG_KEY.search(text) is not None


@lru_cache(maxsize=32)
def _parsed(text: str) -> dict[str, Any]:
    """What a text holds, parsed once: configs are asked for again and again, by every run. Nobody changes it."""
    return tomllib.loads(text)


def convert(value: Any, hint: Any) -> Any:
    """A value of a TOML file converted to a type (see the module); WrongValueError if that is not possible."""
    hint, rule = _split(hint)
    if get_origin(hint) in (Union, UnionType):
        for alternative in get_args(hint):
            try:
                return convert(value, alternative)
            except WrongValueError:
                continue
        raise WrongValueError
    if get_origin(hint) is tuple:
        return _converted_list(value, get_args(hint))
    if type(value) is int and abs(value) > _LARGEST:  # more than TOML promises, and perhaps than a float can be
        raise WrongValueError
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint or (isinstance(rule, Choice) and value not in rule.values):
        raise WrongValueError
    if hint in (int, float):
        bounds = rule if isinstance(rule, Between) else Between(-_LARGEST, _LARGEST)
        if not math.isfinite(value) or not (isinstance(rule, Choice) or bounds.holds(value)):
            raise WrongValueError
    if hint is str and not value and not isinstance(rule, Choice):
        raise WrongValueError
    return value


def _converted_list(value: Any, of: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise WrongValueError
    if of[-1] is Ellipsis:
        items = tuple(convert(item, of[0]) for item in value)
        if len(set(items)) < len(items):
            raise WrongValueError
        return items
    if len(value) != len(of):
        raise WrongValueError
    return tuple(convert(item, hint) for item, hint in zip(value, of, strict=True))


def legal_values(hint: Any) -> str:
    """The values that a type allows, in words."""
    hint, rule = _split(hint)
    if get_origin(hint) in (Union, UnionType):
        return ", or ".join(legal_values(part) for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is tuple:
        first, *rest = get_args(hint)
        many = "a list of" if rest[-1:] == [Ellipsis] else f"a list of {1 + len(rest)}, each"
        return f"{many} {legal_values(first).removeprefix('one of ')}"
    if isinstance(rule, Choice):
        names = ", ".join(repr(value) if value == "" else str(value) for value in rule.values)
        return f"{rule.title}: {names}" if rule.title else f"one of {names}"
    if hint is bool:
        return "true or false"
    if hint is str:
        return "a text"
    noun = "an integer" if hint is int else "a number"
    if not isinstance(rule, Between):
        return noun
    unit = f" ({rule.unit})" if rule.unit else ""
    if rule.exclusive:
        return f"{noun} above {rule.minimum:,} and up to {rule.maximum:,}{unit}"
    return f"{noun} from {rule.minimum:,} to {rule.maximum:,}{unit}"


def _split(hint: Any) -> tuple[Any, Between | Choice | None]:
    """A type without `Annotated`, and the rule that was given there."""
    if get_origin(hint) is not Annotated:
        return hint, None
    bare, *rules = get_args(hint)
    return bare, next((rule for rule in rules if isinstance(rule, Between | Choice)), None)


@lru_cache(maxsize=64)
def fields_of(kind: type) -> dict[str, Any]:
    """The fields of a dataclass that come from a file, with their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind) if f.metadata.get("toml", True)}


@lru_cache(maxsize=64)
def _optional(kind: type) -> frozenset[str]:
    """The names of the fields of a dataclass that have a default."""
    return frozenset(f.name for f in fields(kind) if f.default is not MISSING or f.default_factory is not MISSING)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
