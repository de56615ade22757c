"""Remembers what the engine found for an SM, so that questions that differ in nothing that the engine sees are
simulated once: the number of SMs, device memory, the launch and the sizes that only multiply waves. The clock counts
for kernels that share L2 with other SMs, whose bytes in a cycle depend on it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from simulator.chip.config import Config

P = ParamSpec("P")
T = TypeVar("T")

_UNSEEN = ("path", "name", "title", "hbm", "launch", "energy", "sources", "overrides", "bases")
"""Fields of a config that the engine does not read."""
_CONFIGS = 1_024  # digests that are kept at a time
_digests: OrderedDict[int, tuple[Config, str]] = OrderedDict()


def seen(chip: Config) -> str:
    """A digest of what the engine reads of a config; equal digests give equal cycles."""
    known = _digests.get(id(chip))
    if known is None or known[0] is not chip:
        plain = replace(chip, chip=replace(chip.chip, clock_mhz=1.0, sms=1))
        if plain.l2 is not None:
            plain = replace(plain, l2=replace(plain.l2, capacity=1, copies=1))
        if plain.sequences is not None:  # the file's name stands for what it holds
            plain = replace(plain, sequences=replace(plain.sequences, known={}))
        parts = [(f.name, getattr(plain, f.name)) for f in fields(plain) if f.name not in _UNSEEN]
        known = chip, hashlib.sha256(repr(parts).encode()).hexdigest()
        _digests[id(chip)] = known  # with the config, whose identity no other gets meanwhile
        if len(_digests) > _CONFIGS:
            _digests.popitem(last=False)
    return known[1]


def remembered(keep: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function that does not repeat what it has done for the same arguments; configs count as what the engine
    reads of them. What it returns must not be changed.

    Args:
        keep: how many results are kept, those that were used last.
    """

    def wrap(run: Callable[P, T]) -> Callable[P, T]:
        results: OrderedDict[tuple[Any, ...], T] = OrderedDict()

        @wraps(run)
        def once(*args: P.args, **named: P.kwargs) -> T:
            given: tuple[Any, ...] = (*args, *sorted(named.items()))
            key = tuple(seen(value) if isinstance(value, Config) else value for value in given)
            if key in results:
                results.move_to_end(key)
                return results[key]
            found = results[key] = run(*args, **named)
            if len(results) > keep:
                results.popitem(last=False)
            return found

        return once

    return wrap
