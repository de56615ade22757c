"""Functions of a user's Python file: loaded with clear errors, and called with arrays that they cannot change."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import ConfigError


@lru_cache(maxsize=8)
def function_of(source: str, path: str, name: str, legal: str) -> Callable[..., Any]:
    """A function of a file's text; `np` is there without an import.

    Args:
        source: the text.
        path: the file's name, for errors.
        name: of the function.
        legal: what would be right, for errors.

    Raises:
        ConfigError: the file cannot be run, or has no such function.
    """
    names: dict[str, Any] = {"np": np, "__name__": Path(path).stem, "__file__": path}
    try:
        exec(compile(source, path, "exec"), names)
    except (Exception, SystemExit) as error:  # whatever somebody's file raises
        raise failed(path, error, legal) from None
    function = names.get(name)
    if not callable(function):
        raise ConfigError(path, name, "is no function of the file", legal)
    return function  # type: ignore[no-any-return] # who calls it checks what it returns


def called(function: Callable[..., Any], path: str, legal: str, *positional: Any, **named: Any) -> Any:
    """What a function of a file returns for arrays, which it cannot change; ConfigError if it raises anything."""
    try:
        with np.errstate(all="ignore"):
            return function(*map(_read_only, positional), **{name: _read_only(value) for name, value in named.items()})
    except (Exception, SystemExit) as error:  # whatever somebody's function raises
        raise failed(path, error, legal) from None


def failed(path: str, error: BaseException, legal: str) -> ConfigError:
    """The error for a function, or a file, that raises one: with the line of the file where it did."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    said = " ".join(str(error).split()) or "no message"
    return ConfigError(path, f"line {line}" if line else "", f"{type(error).__name__}: {said}", legal)


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view
