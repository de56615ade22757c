"""The floating-point environment in which tcsim computes: C's default, whatever the calling process has set.

A process can round upwards, or flush subnormal numbers to zero (FTZ and DAZ, which a library that was built with
`-ffast-math` sets when it is loaded), and numpy and Python then compute other bits. `numpy.seterr` can make errors of
numbers that are expected here. Every public function that computes is therefore wrapped by `guarded`: it takes the
default environment for the call and restores the caller's afterwards. Threads and forked processes that start inside a
call inherit the default one.

Source of the default: C17, 7.6 (FE_DFL_ENV). glibc, musl and macOS restore FTZ and DAZ with it. Where the C library is
none of these, the environment stays as the caller has it.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_ROOM = 512  # bytes for an fenv_t: 32 on x86-64, 8 or 16 on ARM


@contextmanager
def default_environment() -> Iterator[None]:
    """Inside, numbers are rounded to nearest, subnormal numbers are kept, and numpy warns as it does by itself."""
    import numpy as np

    restore = _take_default()
    try:
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            yield
    finally:
        restore()


def guarded(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that computes in the default environment. A generator would run outside of it, so it takes none."""
    assert not inspect.isgeneratorfunction(function)

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with default_environment():
            return function(*args, **kwargs)

    call.computes_in_default_environment = True  # type: ignore[attr-defined] # read by a test of all public functions
    return call


def _take_default() -> Callable[[], object]:
    """Sets the default environment for this thread; returns what restores the one before."""
    library, default = _c_library()
    if library is None:
        return lambda: None
    before = ctypes.create_string_buffer(_ROOM)
    library.fegetenv(before)
    library.fesetenv(default)
    return lambda: library.fesetenv(before)


@functools.cache
def _c_library() -> tuple[Any, Any]:
    """The library of C's mathematics and its FE_DFL_ENV; (None, None) where they are not known."""
    try:
        if sys.platform == "darwin":
            library = ctypes.CDLL("libSystem.dylib")
            default: Any = ctypes.byref(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
        elif sys.platform == "linux":
            library = ctypes.CDLL("libm.so.6") if _is_glibc() else ctypes.CDLL(None)
            default = ctypes.c_void_p(-1)  # glibc and musl: ((const fenv_t *) -1)
        else:
            return None, None
        library.fegetenv.restype = library.fesetenv.restype = ctypes.c_int
    except (OSError, AttributeError, ValueError):
        return None, None
    return library, default


def _is_glibc() -> bool:
    """True if the C library of this process is glibc."""
    return hasattr(ctypes.CDLL(None), "gnu_get_libc_version")
