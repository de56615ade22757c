"""Errors: one root, what each of them says, and that they survive being rebuilt and sent to another process."""

from __future__ import annotations

import pickle

import pytest

import isa
import simulator
from isa.errors import Error, IsaError, UndefinedBehavior
from isa.undefined import undefined_behavior
from simulator.errors import ConfigError, DeadlockError, MissingDependency, TraceError, ViewError
from simulator.state.shared import AddressError

EXAMPLES = [
    IsaError("mma.sb", 4, "unknown instruction", "mma.sp", section="PTX ISA 9.0", rule="idesc", operand="a"),
    undefined_behavior("invalid-metadata", "case 0"),
    TraceError("x.trace", 3, 7, "an error", "none", rule="idesc", operand="d"),
    ConfigError("x.toml", "sm.warps", "0", "1 to 128"),
    DeadlockError(("warp 0 waits", "warp 1 waits")),
    ViewError("no timeline", "a config"),
    MissingDependency("matplotlib", "a plot", "plots"),
    AddressError("misaligned access", "a multiple of 4", rule="misaligned-address"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives(error: Error) -> None:
    """SimPy rebuilds an exception from its arguments, multiprocessing pickles it: nothing of it may be lost."""
    for again in (type(error)(*error.args), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_what_every_error_says(error: Error) -> None:
    assert isinstance(error, simulator.Error)
    assert error.reason
    assert error.reason in str(error)
    assert all(isinstance(value, str) for value in (error.rule, error.legal, error.operand))
    assert isinstance(error.position, int)


def test_one_root() -> None:
    assert simulator.Error is isa.Error is Error
    assert simulator.IsaError is isa.IsaError
    assert issubclass(MissingDependency, ImportError)
    assert issubclass(UndefinedBehavior, Error)
    for kind in (IsaError, TraceError, ConfigError, ViewError, AddressError):
        assert issubclass(kind, ValueError)


def test_several_at_once_have_the_rule_of_the_first() -> None:
    error = IsaError.together([IsaError("x", 5, "later", rule="idesc"), IsaError("x", 2, "earlier", rule="scale-ids")])
    assert (error.rule, error.stated_in("9.7").rule) == ("scale-ids", "scale-ids")
