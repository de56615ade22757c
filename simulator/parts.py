"""Finished blocks of work on disk: a folder of parts beside the output, each with what a part must be to be believed.
Fault campaigns and sweeps continue from them after an interruption.

A part is a line `{"rows": ..., "sha256": ...}` and the lines of CSV that it speaks of. One that is cut short, or that
something else has changed, is done again. A run notes in the folder what it is (its list or sweep, its configs, the
package's version); whoever opens parts asks first whether they are those of another run. While a process works on them
it holds a lock, which goes when the process goes, however that ends.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import ConfigError
from simulator.files import check_place, complete
from simulator.locks import BusyError, locked

_LOCK = "lock"


@dataclass(frozen=True)
class Parts:
    """The parts of an output.

    Attributes:
        output: the file that they become.
        note: what run they belong to.
        count: how many blocks there are.
        suffix: of the names of the parts.
    """

    output: Path
    note: str
    count: int
    suffix: str = "part"

    @property
    def folder(self) -> Path:
        """The folder of the parts."""
        return self.output.with_name(f"{self.output.name}.parts")

    @property
    def _run(self) -> Path:
        """The file that says what run the parts belong to."""
        return self.folder / "run"

    @property
    def foreign(self) -> bool:
        """Whether the folder holds parts of another run."""
        if not self._kept():
            return False
        return not self._run.is_file() or self._run.read_bytes() != self.note.encode()

    def _kept(self) -> list[Path]:
        """What is in the folder but the lock, and files that nobody finished to write."""
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        return [path for path in files if path.name != _LOCK and not path.name.startswith(".")]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other processes from the same output while the block runs.

        Raises:
            ConfigError: another process has it.
            OSError: the output, or the folder of its parts, cannot be written.
        """
        check_place(self.output)
        try:
            with locked(self.folder / _LOCK):
                yield
        except BusyError as error:
            by = f" ({error.owner})" if error.owner else ""
            legal = "another output, or the same command again when that run has ended"
            raise ConfigError(str(self.output), "", f"another run is writing it{by}", legal) from None
        finally:
            with suppress(OSError):
                self.folder.rmdir()  # which it does if nothing is kept there

    def open(self) -> int:
        """Makes the folder, or takes up the one that is there; returns how many parts had been spoilt. OSError if the
        folder cannot be written."""
        self.folder.mkdir(exist_ok=True)
        if not self._run.is_file():
            with complete(self._run) as stream:
                stream.write(self.note.encode())
        spoilt = 0
        for number in range(self.count):
            path = self._path(number)
            if path.is_file() and self._read(path) is None:
                path.unlink()
                spoilt += 1
        return spoilt

    def _path(self, number: int, piece: int | None = None) -> Path:
        name = f"{number:06}" if piece is None else f"{number:06}-{piece:06}"
        return self.folder / f"{name}.{self.suffix}"

    @staticmethod
    def _read(path: Path) -> bytes | None:
        """The lines of a part; None of one that is not whole."""
        head, _, lines = path.read_bytes().partition(b"\n")
        try:
            said = json.loads(head)
            whole = said["rows"] == lines.count(b"\n") and said["sha256"] == hashlib.sha256(lines).hexdigest()
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return lines if whole else None

    @property
    def missing(self) -> list[int]:
        """The numbers of the blocks that have not been done."""
        there = {path.name for path in self.folder.glob(f"*.{self.suffix}")}
        return [number for number in range(self.count) if self._path(number).name not in there]

    def keep(self, number: int, lines: bytes, piece: int | None = None) -> None:
        """Stores the lines of a block that is done, or of a piece of it."""
        head = {"rows": lines.count(b"\n"), "sha256": hashlib.sha256(lines).hexdigest()}
        with complete(self._path(number, piece)) as stream:
            stream.write(json.dumps(head).encode() + b"\n" + lines)

    def read(self, number: int, piece: int | None = None) -> bytes | None:
        """The lines of a part, or of a piece of it; None if it has not been done, or was spoilt."""
        path = self._path(number, piece)
        return self._read(path) if path.is_file() else None

    def drop_pieces(self, number: int) -> None:
        """Removes the pieces of a part."""
        for path in self.folder.glob(f"{number:06}-*.{self.suffix}"):
            path.unlink()

    def whole(self, number: int) -> bytes:
        """The lines of a part that has been done; ConfigError if it was spoilt meanwhile."""
        found = self.read(number)
        if found is None:
            raise ConfigError(str(self._path(number)), "", "was changed during the run", "the same command again")
        return found

    def lines(self) -> Iterator[bytes]:
        """The lines of all parts, part by part; ConfigError for one that was spoilt meanwhile."""
        yield from map(self.whole, range(self.count))

    def remove(self) -> None:
        """Removes the folder, if there is one; while it is held, all that is in it but the lock."""
        if self.folder.is_dir() and not (self.folder / _LOCK).exists():
            shutil.rmtree(self.folder)
        elif self.folder.is_dir():
            for path in self.folder.iterdir():
                if path.name != _LOCK:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
