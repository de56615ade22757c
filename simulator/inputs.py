"""Reads what users name: texts and arrays in files. Every file is looked at before it is read: it must be a file (no
folder, pipe or device), and no larger than what it is for.

What cannot be read is an `InputError` with the path, the reason and what would be right; callers whose users expect
another class (`TraceError`, `ConfigError`, ...) make theirs of it.
"""

from __future__ import annotations

import gzip
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from isa.arguments import described
from simulator.errors import ReasonedError, placed
from simulator.files import BROKEN_ARRAYS, reading
from simulator.memory_room import check_room

MOST_TEXT = 1 << 28  # bytes of a text that is read as a whole
GZIP = b"\x1f\x8b"  # how a file begins that gzip packed
MOST_ARRAY = 1 << 36  # bytes of an array whose use sets no closer bound
_KINDS: dict[Callable[[int], bool], str] = {
    stat.S_ISDIR: "is a directory",
    stat.S_ISFIFO: "is a pipe",
    stat.S_ISCHR: "is a device",
}


class InputError(ReasonedError, ValueError):
    """A file that cannot be read.

    Attributes:
        path: of the file, as it was given.
        reason, legal: as in `Error`.
    """

    def __init__(self, path: str, reason: str, legal: str) -> None:
        super().__init__(reason, legal)
        self.args = (path, reason, legal)
        self.path = path

    def __str__(self) -> str:
        return placed(self.path, self.reason, self.legal)


def input_path(given: object, legal: str, *, replaced: bool = False) -> Path:
    """The path that a caller gave.

    Args:
        legal: what would be right, for errors.
        replaced: whether it may be an output, too, that takes its place.

    Raises:
        InputError: it is no path of a file that is there.
        OverwriteError: it is what an output would replace.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise InputError("", f"{described(given)} in place of a file", legal)
    path, shown = Path(given), str(given)[:200]
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(shown, "is not there (No such file or directory)", legal) from None
    except (OSError, ValueError) as error:
        raise InputError(shown, f"cannot be read: {_why(error)}", legal) from None
    if not stat.S_ISREG(mode):
        kind = next((words for is_kind, words in _KINDS.items() if is_kind(mode)), "is no regular file")
        raise InputError(shown, kind, legal)
    if not replaced:
        reading(path)
    return path


def read_bytes(given: object, legal: str, most: int = MOST_TEXT, *, replaced: bool = False) -> bytes:
    """What a file holds; of one that gzip packed, what it packed.

    Args:
        legal: what would be right, for errors.
        most: bytes that it may have, unpacked.
        replaced: as that of `input_path`.

    Raises:
        InputError: it is not there, too large, or a damaged gzip file.
    """
    path = input_path(given, legal, replaced=replaced)
    try:
        size = path.stat().st_size
        if size > most:
            raise InputError(str(path), f"has {size:,} bytes", f"at most {most:,}: {legal}")
        data = path.read_bytes()
        if data[:2] == GZIP:
            with gzip.open(path, "rb") as stream:
                data = stream.read(most + 1)
            if len(data) > most:
                raise InputError(str(path), f"unpacks to more than {most:,} bytes", f"at most as many: {legal}")
        return data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(str(path), f"is no whole gzip file: {_why(error)}", legal) from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {_why(error)}", legal) from None


def read_text(given: object, legal: str, most: int = MOST_TEXT, *, replaced: bool = False) -> str:
    """The text of a file; arguments and errors as those of `read_bytes`, and it must be UTF-8."""
    data = read_bytes(given, legal, most, replaced=replaced)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(str(given), f"byte {error.start} is not UTF-8 text", legal) from None


class ArrayHead(NamedTuple):
    """What a file says of an array before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """The size of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayFile:
    """The arrays of a .npy or .npz file, of which nothing but the heads is read until one is asked for.

    Attributes:
        path: the file.
        archive: whether it is an .npz archive.
        names: of the arrays; "" for the one of a .npy file.

    Raises:
        InputError: no such file, or one that numpy.save or numpy.savez did not write.
    """

    def __init__(self, given: object, legal: str) -> None:
        self.path, self.legal = input_path(given, legal), legal
        with self._readable():
            self.archive = zipfile.is_zipfile(self.path)
            if self.archive:
                self.names = tuple(name.removesuffix(".npy") for name in self._zip.NameToInfo)
            else:
                self.names = ("",)
                self.head("")

    def head(self, name: str) -> ArrayHead:
        """The shape and type of an array; InputError if its head is none, or if it holds Python objects."""
        with self._readable(name), self._stream(name) as stream:
            try:
                version = npy.read_magic(stream)
            except ValueError:
                raise ValueError("there is no array of numbers in it") from None
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
            if read is None:
                raise ValueError(f"version {version[0]}.{version[1]} of the format is not known")
            shape, _, dtype = read(stream)
            if any(type(size) is not int or size < 0 for size in shape):
                raise ValueError(f"a shape of {shape}")
            if dtype.hasobject:
                raise ValueError("there is no array of numbers in it, but Python objects")
            return ArrayHead(shape, dtype)

    def read(self, name: str = "", most: int = MOST_ARRAY) -> NDArray[Any]:
        """An array.

        Args:
            most: bytes that it may have.

        Raises:
            InputError: there is none of that name, it is damaged, or larger.
        """
        if name not in self.names:
            raise InputError(str(self.path), f"has no array '{name}'", ", ".join(self.names) or "an array")
        size = self.head(name).bytes
        if size > most:
            raise InputError(str(self.path), f"{self._shown(name)} has {size:,} bytes", f"at most {most:,}")
        check_room(size, f"{self.path}: {self._shown(name)}")
        with self._readable(name), self._stream(name) as stream:
            array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
            return array

    @contextmanager
    def _stream(self, name: str) -> Iterator[IO[bytes]]:
        if not self.archive:
            with self.path.open("rb") as stream:
                yield stream
            return
        member = f"{name}.npy" if f"{name}.npy" in self._zip.NameToInfo else name
        with self._zip.open(member) as stream:
            yield stream

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        """The archive, whose list of members is read once: there may be thousands."""
        return zipfile.ZipFile(self.path)

    @contextmanager
    def _readable(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except (*BROKEN_ARRAYS, KeyError, MemoryError, OverflowError, RecursionError, SyntaxError, TypeError) as error:
            what = f"{self._shown(name)} " if name else ""
            raise InputError(str(self.path), f"{what}cannot be read: {_why(error)}", self.legal) from None

    @staticmethod
    def _shown(name: str) -> str:
        return f"array '{name}'" if name else "the array"


def _why(error: BaseException) -> str:
    """The reason of an error in one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:200].replace(" unless you load it unsafely", "")
