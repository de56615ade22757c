"""Writes files so that they are either complete or not there at all."""

from __future__ import annotations

import errno
import gzip
import os
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

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


@contextmanager
def complete(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to. It gets its name only when the block ends without an error; otherwise nothing is left behind.
    A device or a pipe, which nothing can take the place of, is written to as it is.

    Raises:
        OSError: the folder does not exist or cannot be written, or there is a folder of that name.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "there is a folder of that name", str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
