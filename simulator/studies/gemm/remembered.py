"""Remembers what the engine found for an SM, so that questions that differ in nothing that the engine sees are
simulated once: the number of SMs, device memory, the launch and the sizes that only multiply waves. The clock counts
for kernels that share L2 with other SMs, whose bytes in a cycle depend on it.

What many questions will cost is found without the engine: while it is `planned`, made-up results take the place of
runs, which are counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
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


Key = tuple[Any, ...]
"""A run: the name of the function that makes it, and what it is given."""


@dataclass(frozen=True)
class Plan:
    """The runs that questions need.

    Attributes:
        made_up: for each function that remembers its runs, by its name, one that takes the same arguments and makes up
            what it returns.
        asked: how often each run was asked for.
    """

    made_up: Mapping[str, Callable[..., Any]]
    asked: Counter[Key] = field(default_factory=Counter)


_plan: ContextVar[Plan | None] = ContextVar("plan", default=None)


@contextmanager
def planned(made_up: Mapping[str, Callable[..., Any]]) -> Iterator[Plan]:
    """Counts runs in place of making them; see `Plan`. What is known already is as it is."""
    plan = Plan(made_up)
    before = _plan.set(plan)
    try:
        yield plan
    finally:
        _plan.reset(before)


_made = 0


def made() -> int:
    """How many runs this process has made up to now."""
    return _made


def remembered(keep: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function that does not repeat what it has done for the same arguments; configs count as what the engine
    reads of them. What it returns must not be changed.

    Args:
        keep: how many results are kept, those that were used last.
    """

    def wrap(run: Callable[P, T]) -> Callable[P, T]:
        results: OrderedDict[Key, T] = OrderedDict()

        @wraps(run)
        def once(*args: P.args, **named: P.kwargs) -> T:
            given: tuple[Any, ...] = (*args, *sorted(named.items()))
            key = (run.__name__, *(seen(value) if isinstance(value, Config) else value for value in given))
            plan = _plan.get()
            if plan is not None:
                plan.asked[key] += 1
            if key in results:
                results.move_to_end(key)
                return results[key]
            if plan is not None:
                made_up: T = plan.made_up[run.__name__](*args, **named)
                return made_up
            global _made  # noqa: PLW0603 - a counter of the process
            _made += 1
            found = results[key] = run(*args, **named)
            if len(results) > keep:
                results.popitem(last=False)
            return found

        return once

    return wrap
