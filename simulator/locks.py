"""Locks on files that go with the process that holds them, however it ends.

They are record locks of the operating system: worker processes do not inherit them, so that workers which outlive their
killed parent block nobody. Where the system, or the file system, has no such locks, nothing is locked.
"""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from simulator.errors import Error

_system: Any = None  # the module that has the locks, where there is one
with suppress(ImportError):
    import fcntl

    _system = fcntl

_HELD = errno.EACCES, errno.EAGAIN  # what a lock that another process holds answers
_here: set[str] = set()  # files that this process has locked; the system would give it the same lock twice


class BusyError(Error):
    """Another process, or another part of this one, holds the lock.

    Attributes:
        owner: which process that is, in words; "" if that is not known.
    """

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner, self.reason = owner, "is locked"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock while the block runs. The file, and its folder, are made if need be; the file goes with the lock.

    Raises:
        BusyError: somebody holds it already.
        OSError: the file cannot be written.
    """
    if _system is None:
        path.parent.mkdir(exist_ok=True)
        yield
        return
    place = os.path.realpath(path)
    if place in _here:
        raise BusyError(_words(os.getpid()))
    _here.add(place)
    try:
        handle = _locked(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(handle)
    finally:
        _here.discard(place)


def _locked(path: Path) -> int:
    """A handle of the file, locked. Whoever held it before removes it, so that what was locked may be there no more:
    then it is done again."""
    while True:
        path.parent.mkdir(exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder went between the two lines
            continue
        try:
            _lock(handle)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    os.ftruncate(handle, 0)
                    os.write(handle, _words(os.getpid()).encode())
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    """Locks a file, where there are locks; BusyError if somebody else has."""
    try:
        _system.lockf(handle, _system.LOCK_EX | _system.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise BusyError(os.pread(handle, 200, 0).decode(errors="replace")) from None


def _words(process: int) -> str:
    return f"process {process} on {platform.node()}"
