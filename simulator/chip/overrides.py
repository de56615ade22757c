"""Values that a user sets over those of a config: `tensor.sparse_full_k.interval=4`.

A key is the dotted path of an entry. A row of an array of tables is addressed by its name as a slug, lower case and `_`
for all but letters and digits: `tensor.sparse_full_k_f32` is one row, `tensor.sparse_full_k` all whose slugs begin with
these words, `tensor.sparse_*_f32` all that match. A value is written as in TOML; a text may go without quotes; `x2`,
`x1/2` or `x1.5` is a factor of what the config has.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, NoReturn

from simulator.chip.earlier import EARLIER, NO_EFFECT, checked, clock_of, is_removed, todays_key
from simulator.chip.layers import changed_source, is_rows, toml_value
from simulator.errors import ConfigError, did_you_mean
from simulator.toml_tables import Tables, slug

Overrides = Iterable[str] | Mapping[str, Any]
_FORM = "KEY=VALUE, such as tensor.sparse_full_k.interval=4 or l2.read_bytes=x2"
_WHO = "set by the user"
_FACTOR = re.compile(r"\d{1,12}(\.\d{0,12})?(/[1-9]\d{0,11}|[eE][+-]?\d{1,2})?")  # whose value is quickly computed
_MOST_VALUE = 100_000  # characters of a value; a list of a row's numbers has some tens


def parse_overrides(overrides: Overrides, path: str) -> dict[str, Any]:
    """Reads overrides into values by key; of several overrides for one key, the last counts.

    Args:
        overrides: texts `KEY=VALUE`, or values by key.
        path: the config's file, for errors.

    Raises:
        ConfigError: a text that is not of this form.
    """
    if isinstance(overrides, str):
        overrides = (overrides,)
    pairs: list[tuple[str, Any]] = []
    if isinstance(overrides, Mapping):
        pairs = list(overrides.items())
    else:
        for text in overrides:
            key, separator, value = str(text).partition("=")
            if not separator or not key.strip() or not value.strip():
                raise ConfigError(path, str(text), "nothing is set by this", _FORM)
            pairs.append((key, value))
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.pop(key.strip(), None)
        found[key.strip()] = _value(value)
    return found


def canonical(overrides: Mapping[str, Any]) -> tuple[str, ...]:
    """The overrides as texts `KEY=VALUE`."""
    return tuple(f"{key}={_text(value)}" for key, value in overrides.items())


def apply(tables: Tables, overrides: Mapping[str, Any]) -> Tables:
    """The tables with overrides applied; a table in which a value changes counts as assumed.

    Raises:
        ConfigError: a key that the config does not have, or a factor for a value that is no number.
    """
    values = copy.deepcopy(dict(tables.values))
    renewed = Tables(tables.path, values, named=True)
    changes: dict[int, tuple[dict[str, Any], list[str]]] = {}
    for name, given in _last_earlier(overrides).items():
        key, value = _todays(renewed, name, given, overrides)
        if is_removed(key):
            tables.fail(key, NO_EFFECT, "'tcsim config' lists keys")
        for table, entry in _entries(renewed, key):
            before = table.get(entry)
            after = _scaled(tables, key, before, value) if isinstance(value, Factor) else value
            if isinstance(before, Mapping) or is_rows(before):
                legal = ", ".join(f"{key}.{name}" for name in _names(before))
                tables.fail(key, "a table and not a value", legal)
            if after != before or type(after) is not type(before):
                table[entry] = after
                changes.setdefault(id(table), (table, []))[1].append(f"{entry} = {toml_value(after)}")
    for table, changed in changes.values():
        given = any(text.startswith("source = ") for text in changed)
        if "source" in table and not given:
            table["source"] = changed_source(changed, _WHO, str(table["source"]))
    return renewed


def _last_earlier(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides, with keys of earlier versions behind the others: their values are in cycles of the clock that the
    other overrides may set."""
    return dict(sorted(overrides.items(), key=lambda one: todays_key(one[0]) != one[0]))


def _todays(tables: Tables, key: str, value: Any, overrides: Mapping[str, Any]) -> tuple[str, Any]:
    """The present key and value for a key of an earlier version; other keys and values as they are."""
    (table, _, name), clock = key.partition("."), clock_of(tables.values)
    earlier, today = EARLIER.get((table, name)), todays_key(key)
    if earlier is None or clock is None:
        return key, value
    if today in overrides:
        tables.fail(key, f"beside {today}, which says the same", "one of them")
    if isinstance(value, Factor):
        return today, value
    return today, earlier.today(checked(tables, key, earlier, value), clock)


class Factor(Fraction):
    """A value that is a multiple of what the config has."""


def _value(value: Any) -> Any:
    """The value of an override: a TOML value in a text, a factor such as "x2", or a Python object."""
    if hasattr(value, "item"):  # of numpy
        value = value.item()
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] == "x" and text[1:2].isdigit():
        try:
            return Factor(text[1:]) if _FACTOR.fullmatch(text[1:]) else text
        except (ValueError, ZeroDivisionError):
            return text
    if len(text) > _MOST_VALUE:
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _text(value: Any) -> str:
    if isinstance(value, Factor):
        return f"x{value}"
    bare = isinstance(value, str) and _value(value) == value and not any(c in value for c in ", \"'")
    return value if bare else toml_value(value)


def _scaled(tables: Tables, key: str, before: Any, factor: Factor) -> int | float:
    """A number times a factor; an integer stays an integer, or ConfigError."""
    if isinstance(before, bool) or not isinstance(before, int | float):
        reason = "missing" if before is None else f"{toml_value(before)}"
        tables.fail(key, f"a factor (x{factor}) of what is no number: {reason}", "a value")
    if isinstance(before, float):
        return float(Fraction(before) * factor)
    after = before * Fraction(factor)
    if after.denominator != 1:
        tables.fail(key, f"{before} x {Fraction(factor)} = {after} is no whole number", "a factor that gives one")
    return after.numerator


def _entries(tables: Tables, key: str) -> list[tuple[dict[str, Any], str]]:
    """The tables that a key addresses, and the entry in them."""
    *path, entry = key.split(".")
    found: list[tuple[str, Any]] = [("", tables.values)]
    for part in path:
        found = [step for where, node in found for step in _step(tables, key, where, node, part)]
    for where, node in found:
        if is_rows(node):
            _no_row(tables, key, where, node, entry)
        if not isinstance(node, Mapping):
            tables.fail(key, f"'{where}' is a value and not a table", where)
        if not entry or entry == "base" or (not where and not isinstance(node.get(entry), str | Mapping | list)):
            _unknown(tables, key)
    return [(node, entry) for _, node in found]


def _step(tables: Tables, key: str, where: str, node: Any, part: str) -> list[tuple[str, Any]]:
    """The entries that one part of a key addresses in a table, or the rows in an array of tables."""
    if is_rows(node):
        slugs = [slug(str(row.get("name", ""))) for row in node]
        if part in slugs:
            matching = [part]
        elif any(c in part for c in "*?["):
            matching = [name for name in slugs if fnmatchcase(name, part)]
        else:
            matching = [name for name in slugs if name.startswith(f"{part}_")]
        rows = [(f"{where}.{name}", row) for name, row in zip(slugs, node, strict=True) if name in matching]
        return rows or _no_row(tables, key, where, node, part)
    if isinstance(node, Mapping) and part in node:
        return [(f"{where}.{part}" if where else part, node[part])]
    _unknown(tables, key)


def _no_row(tables: Tables, key: str, where: str, rows: list[Any], part: str) -> NoReturn:
    slugs = [slug(str(row.get("name", ""))) for row in rows]
    words = [name.split("_") for name in slugs]
    beginnings = dict.fromkeys("_".join(w[:n]) for w in words for n in range(1, len(w) + 1))
    hint = did_you_mean(part, beginnings, f"{where}.")
    tables.fail(key, f"no row '{part}' of {where}{hint}", ", ".join(slugs))


def _unknown(tables: Tables, key: str) -> NoReturn:
    """Raises ConfigError for a key that addresses nothing; the error names the nearest key."""
    known = list(_keys("", tables.values))
    same_end = [name for name in known if name.split(".")[-1] == key.rsplit(".", maxsplit=1)[-1]]
    hint = did_you_mean(key, known) or (f", did you mean '{same_end[0]}'?" if same_end else "")
    legal = f"TABLE.KEY, with TABLE one of {', '.join(_names(tables.values))}; 'tcsim config' lists keys"
    tables.fail(key, f"unknown key{hint}", legal)


def _keys(where: str, node: Any) -> Iterable[str]:
    """The dotted paths of all values."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _keys(f"{where}.{name}" if where else name, value)
    elif is_rows(node):
        for row in node:
            yield from _keys(f"{where}.{slug(str(row.get('name', '')))}", row)
    else:
        yield where


def _names(node: Any) -> list[str]:
    """The names of the tables in a table, and of the rows of an array."""
    if is_rows(node):
        return [slug(str(row.get("name", ""))) for row in node]
    return [name for name, value in node.items() if isinstance(value, Mapping) or is_rows(value)] or list(node)
