"""Errors: one root, what each of them says, and that they survive being rebuilt and sent to another process."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

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


def every_class() -> list[type[Error]]:
    """Every class of errors of both packages, whose modules are all imported."""
    for package in (isa, simulator):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", "._kernel", "._engine")):
                import_module(module.name)

    def below(kind: type[Error]) -> Iterator[type[Error]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    return [kind for kind in dict.fromkeys(below(Error)) if kind.__module__.split(".")[0] in ("isa", "simulator")]


def made(kind: type[Error]) -> Error:
    """An error of this class whose arguments are all given, by name."""
    values = {
        "int": 7,
        "tuple[str, ...]": ("warp 0 waits", "warp 1 waits"),
        "tuple[IsaError, ...]": (IsaError("x", 1, "more", "y"),),
    }
    parameters = inspect.signature(kind).parameters.values()
    return kind(**{each.name: values.get(str(each.annotation), f"the {each.name}") for each in parameters})


def test_every_class_of_errors_survives_pickle_and_copies() -> None:
    """Worker processes pickle, SimPy rebuilds from `args`. Of LaunchError both failed."""
    kinds = every_class()
    assert len(kinds) > 15
    for kind in kinds:
        error = made(kind)
        error.more_to_say = ["set", "later"]  # type: ignore[attr-defined]
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(error, protocol))
            assert (type(again), str(again), str(again.args)) == (kind, str(error), str(error.args)), kind
            assert {name: str(value) for name, value in vars(again).items()} == {
                name: str(value) for name, value in vars(error).items()
            }, kind
        for again in (copy.copy(error), copy.deepcopy(error), kind(*error.args)):
            assert (type(again), str(again)) == (kind, str(error)), kind
            for name in ("rule", "reason", "legal", "position", "operand"):
                assert getattr(again, name) == getattr(error, name), (kind, name)


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
