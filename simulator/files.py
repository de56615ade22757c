"""Writes files so that they are either complete or not there at all, and never in the place of an input.

A verb says first which files it will write (`outputs`); whoever opens an input says so, too (`reading`). A file that is
both is an `OverwriteError`, before any work is done.
"""

from __future__ import annotations

import errno
import gzip
import os
import secrets
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from simulator.errors import ReasonedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of members of archives: equal arrays give equal files
BROKEN_ARRAYS = (
    OSError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    tokenize.TokenError,
)
"""What numpy.load and an archive that it opened raise for a file that is not there, cut short, or something else."""
_NAME = 40  # characters of a file's name that its temporary name repeats: names have at most 255 bytes
_outputs: ContextVar[tuple[Path, ...]] = ContextVar("outputs", default=())


class OverwriteError(ReasonedError):
    """An output would take the place of an input, or of another output. Attributes as in `Error`."""


@contextmanager
def outputs(paths: Iterable[str | Path]) -> Iterator[None]:
    """While the block runs, none of these files, which it will write, can be read, until it is written.

    Raises:
        OverwriteError: two of them are one file.
    """
    files = tuple(map(Path, paths))
    for number, path in enumerate(files):
        for other in files[:number]:
            if same_file(path, other):
                raise OverwriteError(f"{path}: two outputs in one file", "a file for each")
    token = _outputs.set(files)
    try:
        yield
    finally:
        _outputs.reset(token)


def reading(path: str | Path, written: Iterable[str | Path] | None = None) -> None:
    """Says that a file is about to be read as an input.

    Args:
        written: the files that will be written; None: those of the `outputs` around this call.

    Raises:
        OverwriteError: one of them is this file.
    """
    for output in _outputs.get() if written is None else written:
        if same_file(path, output):
            name = "" if str(output) == str(path) else f" as {output}"
            raise OverwriteError(f"{path}: is an input, and would be replaced by the output{name}", "another output")


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to one file, by links or by another spelling; a device or pipe is no such file."""
    try:
        if os.path.exists(one) or os.path.exists(other):
            return os.path.samefile(one, other) and os.path.isfile(one)
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # one of them is not there
        return False


def check_place(path: str | Path) -> None:
    """Whether a file of this name can be written: for whoever would find out only after the work.

    Raises:
        OSError: its folder is not there or cannot be written, or there is a folder of that name.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "there is a folder of that name", str(path))
    if path.exists() and not path.is_file():
        return
    folder = Path(os.path.realpath(path)).parent  # of the file that a link leads to
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "the folder may not be written", str(path))


@contextmanager
def complete(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to. It gets its name only when the block ends without an error; otherwise nothing is left behind.
    A device or a pipe, which nothing can take the place of, is written to as it is. A file that is replaced keeps its
    mode; a link to a file stays a link.

    Raises:
        OSError: the folder does not exist or cannot be written, or there is a folder of that name.
    """
    path = Path(path)
    check_place(path)
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    target = Path(os.path.realpath(path))  # a link stays, and leads to the new file
    with _named(path):
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        handle, temporary = _new_file(target, 0o666 if mode is None else mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        with _named(path):
            if mode is not None:  # the umask may have taken bits away that the file before had
                temporary.chmod(mode)
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _outputs.set(tuple(output for output in _outputs.get() if not same_file(output, path)))


def _new_file(target: Path, mode: int) -> tuple[int, Path]:
    """An empty file beside `target`, open for writing, and its name. Its mode is `mode` without the bits of the umask,
    as the system applies it: to read the umask one would have to change it for all threads."""
    while True:
        temporary = target.parent / f".{target.name[:_NAME]}.{secrets.token_hex(4)}.part"
        try:
            return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), temporary
        except FileExistsError:
            continue


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the block are about this file, not about the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays as an npz archive, each under its own name whatever that is, completely or not at all.

    Raises:
        OSError: the folder does not exist or cannot be written.
    """
    from numpy.lib import format as npy

    with complete(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


@contextmanager
def complete_or_gzip(path: str | Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """As `complete`, but compressed by gzip if the name ends in .gz. Equal contents give equal files.

    Raises:
        OSError: the folder does not exist or cannot be written.
    """
    with complete(path) as raw:
        if not str(path).endswith(".gz"):
            yield raw
            return
        with gzip.GzipFile("", "wb", 6, raw, 0) as stream:
            yield stream
