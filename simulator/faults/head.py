"""Checks what the head of a list of faults, or of a file of results, says: a value that is none is an error before
anything is injected, never a default. `KEYS` has a line for each key whose value means something; versions, names and
rules are words for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from isa.errors import FAULT_POLICIES
from simulator.errors import TraceError, did_you_mean

_GROUP = {"name": str, "site": str, "kind": str, "where": str, "faults": int, "population": int}
_HEXADECIMAL = frozenset("0123456789abcdef")


class _Key(NamedTuple):
    """What the value of a key may be: a check, and the same in words."""

    holds: Callable[[str], bool]
    legal: str
    names: tuple[str, ...] = ()


def _is_object(text: str) -> bool:
    return isinstance(_parsed(text), dict)


def _are_groups(text: str) -> bool:
    groups = _parsed(text)
    return isinstance(groups, list) and all(map(_is_group, groups))


def _is_group(value: object) -> bool:
    return isinstance(value, dict) and all(type(value.get(key)) is kind for key, kind in _GROUP.items())


def _is_digest(text: str) -> bool:
    return bool(text) and set(text) <= _HEXADECIMAL


def _is_seed(text: str) -> bool:
    return text.isdecimal() and len(text) < 20 and int(text) < 1 << 63


def _is_count(text: str) -> bool:
    failed, word, products = text.partition(" of ")
    numbers = failed.isdecimal() and products.isdecimal() and len(text) < 40
    return bool(word) and numbers and int(failed) <= int(products) > 0


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


KEYS: Mapping[str, _Key] = {
    "policy": _Key(lambda text: text in FAULT_POLICIES, ", ".join(FAULT_POLICIES), FAULT_POLICIES),
    "seed": _Key(_is_seed, "a number from 0 to 2^63 - 1"),
    "subject": _Key(_is_object, "a JSON object with an opcode, a trace or a launch"),
    "operands": _Key(_is_digest, "a digest in hexadecimal digits"),
    "groups": _Key(_are_groups, f"a JSON list of objects with {', '.join(_GROUP)}"),
    **dict.fromkeys(
        (f"{name}_false_alarms" for name in ("abft", "nonfinite", "range", "own")),
        _Key(_is_count, "two numbers, such as 8 of 256"),
    ),
    "list_sha256": _Key(_is_digest, "a digest in hexadecimal digits"),
}


def check_head(path: Path, about: Mapping[str, str]) -> None:
    """Checks the values of a head, whose first key stands in the second line.

    Raises:
        TraceError: a value that its key cannot have, with its line.
    """
    for line, (name, value) in enumerate(about.items(), 2):
        key = KEYS.get(name)
        if key is not None and not key.holds(value):
            shown = value if len(value) <= 40 else f"{value[:40]}..."
            reason = f"{name} is '{shown}'{did_you_mean(value, key.names)}"
            raise TraceError(str(path), line, 1, reason, key.legal)
