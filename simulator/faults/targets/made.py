"""What traces and launches store without faults, from their operands or from others: the same arrays, of which elements
that are not zero have changed places. Whether an array can be drawn so is tried: a run must end as it did, and meet no
case that is undefined and was not met before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES
from simulator.applications import digits_tcgen05
from simulator.applications.digits import EVERY, plan_that_stores, stored_arrays
from simulator.applications.digits_plan import layer_results
from simulator.applications.digits_tcgen05 import TmemPlan
from simulator.applications.stored import Stored
from simulator.check.reference import inputs_of
from simulator.errors import ConfigError, Error
from simulator.faults.detectors.named_product import LEGAL, NamedProduct
from simulator.faults.detectors.products import Arrays, Place, numbered, shuffled, stored_place
from simulator.faults.targets.launches.single import Ended
from simulator.program.capture import Capture
from simulator.program.data import loaded_arrays
from simulator.program.kernel import Kernel
from simulator.program.program import Load
from simulator.simulation.session import Session


class Launched(Protocol):
    """A launch as a fault target, which is a dataclass."""

    @property
    def arithmetic(self) -> str: ...
    @property
    def capture(self) -> Capture: ...
    @property
    def kernel(self) -> Kernel: ...
    @property
    def stored(self) -> Stored: ...

    def without_fault(self) -> Ended:
        """Launches without a fault."""


ELEMENTS = {"float16": "f16", "float32": "f32", "int32": "s32"}  # that the arrays of buffers hold


def _tried(names: tuple[str, ...], works: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """The arrays that can be drawn: all of them if that works together, else each that works alone, if these do."""
    if not names or works(names):
        return names
    alone = tuple(name for name in names if works((name,)))
    if works(alone):
        return alone
    return ()


class MadeTrace:
    """What a trace stores without faults."""

    def __init__(self, session: Session, stored: Stored) -> None:
        self.session, self.right = session, stored

    def place(self, named: NamedProduct) -> Place:
        """Where a product lies in what is stored: without a name the layer of a trace of traces/digits."""
        return stored_place(named, self.right, self.right.element) if named.name else layer_place(self.right)

    @cached_property
    def _arrays(self) -> list[tuple[Load, NDArray[Any]]]:
        return loaded_arrays(self.session.program)

    def drawable(self, names: set[str] | None) -> tuple[str, ...]:
        """The names of loaded arrays that can be drawn, of these or of all."""
        keys = dict.fromkeys(load.key for load, _ in self._arrays if names is None or load.key in names)
        before = self.session.run().undefined

        def works(drawn: tuple[str, ...]) -> bool:
            try:
                return bool(self.session.run(machines=self._machines(drawn, 0)).undefined == before)
            except Error:
                return False

        return _tried(tuple(keys), works)

    def inputs(self, drawn: tuple[str, ...], seed: int) -> dict[str, Any]:
        """The loaded arrays by their names in the archives."""
        change = self._change(drawn, seed)
        return {load.key: change(load, array) for load, array in self._arrays}

    def stored(self, drawn: tuple[str, ...], seed: int, *, exact: bool) -> Arrays:
        """What the trace stores; ConfigError for a run that does not end."""
        try:
            return self.session.run(machines=self._machines(drawn, seed, carries=exact)).arrays
        except Error as error:
            raise _unmade(error) from None

    def _machines(self, drawn: tuple[str, ...], seed: int, *, carries: bool = False) -> Any:
        return self.session.fresh(carries=carries, change=self._change(drawn, seed))

    def _change(self, drawn: tuple[str, ...], seed: int) -> Callable[[Load, NDArray[Any]], NDArray[Any]]:
        order = list(drawn)
        return lambda load, array: shuffled(array, seed, order.index(load.key)) if load.key in order else array


class MadeLaunch:
    """What a launch stores without faults."""

    def __init__(self, target: Launched) -> None:
        self.target = target

    def place(self, named: NamedProduct) -> Place:
        """Where a product lies in what is stored: a buffer, whose type is that of its array."""
        if not named.name:
            raise ConfigError("--detect", "abft", "no product of a launch is known", LEGAL)
        spec = self.target.capture.buffers.get(named.name)
        element = None if spec is None else ELEMENT_TYPES.get(ELEMENTS.get(spec.type, ""))
        shape = None if spec is None else spec.declared
        if spec is not None and shape is None and len(spec.shape) == 2:
            shape = spec.shape[0], spec.shape[1], spec.shape[1]
        return stored_place(named, self.target.stored, element, shape)

    def drawable(self, names: set[str] | None) -> tuple[str, ...]:
        """The buffers that can be drawn, of these or of all."""
        before = self.target.capture.before
        given = tuple(name for name, array in before.items() if array.any() and (names is None or name in names))
        golden = self._ended((), 0, exact=False)

        def works(drawn: tuple[str, ...]) -> bool:
            ended = self._ended(drawn, 0, exact=False)
            return not ended.reason and ended.undefined == golden.undefined

        return _tried(given, works)

    def inputs(self, drawn: tuple[str, ...], seed: int) -> dict[str, Any]:
        """The buffers before the launch, and its numbers."""
        return inputs_of(self._capture(drawn, seed))

    def stored(self, drawn: tuple[str, ...], seed: int, *, exact: bool) -> Arrays:
        """What the launch stores; ConfigError for one that does not end."""
        ended = self._ended(drawn, seed, exact=exact)
        if ended.reason:
            raise _unmade(ended.said)
        return ended.arrays

    def _ended(self, drawn: tuple[str, ...], seed: int, *, exact: bool) -> Ended:
        mine: Any = self.target
        other = replace(mine, arithmetic="exact" if exact else self.target.arithmetic, policy="hardware")
        vars(other).update(capture=self._capture(drawn, seed), kernel=self.target.kernel)
        ended: Ended = other.without_fault()
        return ended

    def _capture(self, drawn: tuple[str, ...], seed: int) -> Capture:
        capture = self.target.capture
        before = {name: shuffled(capture.before[name], seed, number) for number, name in enumerate(drawn)}
        return replace(capture, before={**capture.before, **before})


def _unmade(said: object) -> ConfigError:
    reason = f"a run without a fault, from other operands or by exact sums, does not end: {said}"
    return ConfigError("--detect", "abft", reason, "an expression for the product, and tolerance=X")


def layer_place(stored: Stored) -> Place:
    """Where the layer lies in what a trace of traces/digits stores; ConfigError for another trace."""
    name = plan_that_stores(stored.golden)
    plan = EVERY.get(name or "")
    if plan is None:
        raise ConfigError("--detect", "abft", "no product of this trace is known", LEGAL)
    arrays = stored_arrays(numbered(stored), plan)
    if isinstance(plan, TmemPlan):
        index = digits_tcgen05.results(plan, arrays[0]).reshape(-1, plan.images)
        return Place(ELEMENT_TYPES[plan.accumulator], index.astype(np.int64))
    index = layer_results(plan, arrays[0], arrays[-1])
    return Place(ELEMENT_TYPES[plan.accumulator], index.astype(np.int64))
