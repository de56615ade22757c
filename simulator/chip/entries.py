"""Every value of a config with its key, its legal values, what it means and where it comes from; and a config as TOML.

>>> entry = next(one for one in entries("h100_sxm", ["chip.sms=66"]) if one.key == "chip.sms")
>>> entry.value, entry.legal, entry.meaning, entry.status
(66, 'an integer from 1 to 1,024', 'SMs of the chip.', 'assumed')
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from simulator.chip.config import resolve
from simulator.chip.earlier import todays_key
from simulator.chip.layers import is_rows, toml_value
from simulator.chip.overrides import Overrides
from simulator.errors import ConfigError, did_you_mean
from simulator.toml_tables import fields_of, legal_values


@dataclass(frozen=True)
class Entry:
    """One value of a config.

    Attributes:
        key: how overrides address it.
        value: as Python has it; lists are tuples; None for what is left out and has no default.
        legal: the values that it may have, in words.
        meaning: what it says, with its unit.
        status, source: of its table: where its numbers come from.
    """

    key: str
    value: Any
    legal: str
    meaning: str
    status: str
    source: str

    @property
    def table(self) -> str:
        """The table that it belongs to."""
        return self.key.rpartition(".")[0]


def entries(name: str | Path, overrides: Overrides = ()) -> list[Entry]:
    """All values of a config, those that the file leaves out with their defaults; arguments and errors as
    `load_config`."""
    config, _, records = resolve(name, overrides)
    found = []
    for table, (title, record) in records.items():
        kind: type = record.__class__
        words = meanings(kind)
        for field, hint in fields_of(kind).items():
            about = legal_values(hint), words[field], config.status(title), config.sources[title]
            found.append(Entry(f"{table}.{field}", getattr(record, field), *about))
    return found


def select(found: Sequence[Entry], keys: Sequence[str], label: str) -> list[Entry]:
    """The entries that one of the keys addresses: "tensor", "tensor.sparse_full_k", "tensor.*.interval", "chip.sms".
    All without a key; ConfigError for a key that addresses none."""
    chosen: set[str] = set()
    for key in keys:
        mine = {entry.key for entry in found if _addresses(todays_key(key), entry.key)}
        if not mine:
            known = dict.fromkeys(name for e in found for name in (e.key, e.table, e.table.split(".", 1)[0]))
            tables = ", ".join(dict.fromkeys(entry.key.split(".", 1)[0] for entry in found))
            reason, legal = (
                f"unknown key{did_you_mean(key, known)}",
                f"TABLE, TABLE.KEY or TABLE.ROW.KEY; tables: {tables}",
            )
            raise ConfigError(label, key, reason, legal)
        chosen |= mine
    return [entry for entry in found if not keys or entry.key in chosen]


def _addresses(key: str, whole: str) -> bool:
    """Whether a key, or the beginning of one, addresses a value."""
    parts, names = key.split("."), whole.split(".")
    return len(parts) <= len(names) and all(
        name == part or name.startswith(f"{part}_") or fnmatchcase(name, part)
        for part, name in zip(parts, names, strict=False)
    )


@lru_cache(maxsize=64)
def meanings(kind: type) -> Mapping[str, str]:
    """What the fields of a table mean, from the docstring of its class."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2]  # Python 3.13 takes the indentation away
    found = dict.fromkeys(fields_of(kind), "")
    for names, words in re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", text, re.MULTILINE):
        found |= dict.fromkeys(names.split(", "), " ".join(words.split()))
    return found


def as_toml(name: str | Path, overrides: Overrides = ()) -> str:
    """A config with all that it inherits and all that is set, as one file; arguments and errors as `load_config`."""
    config, tables, _ = resolve(name, overrides)
    return "\n".join([f"# {config.label}, {config.title}", *_lines("", tables.values)]).rstrip() + "\n"


def _lines(where: str, table: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table: its values, then the tables in it."""
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping) or is_rows(value)}
    for key, value in table.items():
        if key not in nested:
            yield f"{key} = {toml_value(value)}"
    yield ""
    for key, value in nested.items():
        place = f"{where}.{key}" if where else key
        for row in value if isinstance(value, list) else [value]:
            yield f"[[{place}]]" if isinstance(value, list) else f"[{place}]"
            yield from _lines(place, row)
