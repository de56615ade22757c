"""Finished points on disk: a folder of parts beside the output, each with what a part must be to be believed.

A part is a line `{"rows": ..., "sha256": ...}` and the lines of CSV that it speaks of. One that is cut short, or that
something else has changed, is done again. A run notes in the folder what it is (the sweep, its configs, the package's
version); parts of another run are refused.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import ConfigError
from simulator.files import complete


@dataclass(frozen=True)
class Parts:
    """The parts of an output.

    Attributes:
        output: the file that they become.
        note: what run they belong to.
        count: how many blocks there are.
    """

    output: Path
    note: str
    count: int

    @property
    def folder(self) -> Path:
        """The folder of the parts."""
        return self.output.with_name(f"{self.output.name}.parts")

    def open(self, *, restart: bool = False) -> int:
        """Makes the folder, or takes up the one that is there; returns how many parts had been spoilt.

        Args:
            restart: whether to throw away what is there.

        Raises:
            ConfigError: parts of another run.
            OSError: the folder cannot be written.
        """
        if restart and self.folder.is_dir():
            shutil.rmtree(self.folder)
        note = self.folder / "run"
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if not note.is_file() or note.read_text() != self.note:
                reason = "holds points of another sweep, or of other configs or another version of tcsim"
                raise ConfigError(str(self.folder), "", reason, "--restart, or another output, or remove the folder")
        else:
            self.folder.mkdir(exist_ok=True)
            with complete(note) as stream:
                stream.write(self.note.encode())
        spoilt = 0
        for number in range(self.count):
            path = self._path(number)
            if path.is_file() and self._read(path) is None:
                path.unlink()
                spoilt += 1
        return spoilt

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.part"

    @staticmethod
    def _read(path: Path) -> bytes | None:
        """The lines of a part; None of one that is not whole."""
        head, _, lines = path.read_bytes().partition(b"\n")
        try:
            said = json.loads(head)
            whole = said["rows"] == lines.count(b"\n") and said["sha256"] == hashlib.sha256(lines).hexdigest()
        except (ValueError, TypeError, KeyError):
            return None
        return lines if whole else None

    @property
    def missing(self) -> list[int]:
        """The numbers of the blocks that have not been done."""
        there = {path.name for path in self.folder.glob("*.part")}
        return [number for number in range(self.count) if self._path(number).name not in there]

    def keep(self, number: int, lines: bytes) -> None:
        """Stores the lines of a block that is done."""
        head = {"rows": lines.count(b"\n"), "sha256": hashlib.sha256(lines).hexdigest()}
        with complete(self._path(number)) as stream:
            stream.write(json.dumps(head).encode() + b"\n" + lines)

    def lines(self) -> Iterator[bytes]:
        """The lines of all parts, part by part; ConfigError for one that was spoilt meanwhile."""
        for number in range(self.count):
            found = self._read(self._path(number)) if self._path(number).is_file() else None
            if found is None:
                raise ConfigError(
                    str(self._path(number)), "", "was changed while the sweep ran", "the same command again"
                )
            yield found

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder)
