"""Values at and near the bounds of every key of a config that times, for comparisons of the two engines."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Annotated, Any, get_args, get_origin

from simulator.chip.config import resolve
from simulator.toml_tables import Between, Choice, fields_of

_NEAR = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 1000, 1200, 4096, 65_535)
"""Integers at which a word, or a field of one, could be full."""
_UNTIMED = ("energy", "product", "launch")
"""Tables that no engine reads."""


@lru_cache(maxsize=8)
def keys(name: str) -> dict[str, tuple[Any, ...]]:
    """Each key of a shipped config that has bounds, with values at them, near them and between them."""
    found: dict[str, tuple[Any, ...]] = {}
    for table, (_, record) in resolve(name, ())[2].items():
        if table.split(".", maxsplit=1)[0] in _UNTIMED:
            continue
        for field, hint in fields_of(record.__class__).items():
            values = _values(hint)
            if values and getattr(record, field) is not None:
                found[f"{table}.{field}"] = values
    return found


def _values(hint: Any) -> tuple[Any, ...]:
    if hint is bool:
        return (False, True)
    if get_origin(hint) is not Annotated:
        return ()
    kind, legal = get_args(hint)[:2]
    if isinstance(legal, Choice):
        return legal.values
    if not isinstance(legal, Between) or kind is not int:
        return ()
    low, high = int(legal.minimum), int(legal.maximum)
    near = {low, low + 1, (low + high) // 2, high - 1, high, *_NEAR}
    return tuple(sorted(one for one in near if low <= one <= high))


def draw(name: str, random: Random, count: int) -> list[str]:
    """So many overrides: keys with values, as `--set` takes them."""
    legal = keys(name)
    return [f"{key}={_text(random.choice(legal[key]))}" for key in random.sample(sorted(legal), count)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
