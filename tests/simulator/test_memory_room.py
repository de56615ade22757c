"""What is too large is refused before memory is taken, in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator import memory_room
from simulator.files import write_arrays
from simulator.inputs import ArrayFile
from simulator.memory_room import RoomError, available, check_room, shown
from tests.support.kernels import NOTHING

Tcsim = Callable[..., tuple[int, str, str]]


def test_what_the_system_has_is_read() -> None:
    room = available()
    assert room is None or 1 << 20 < room < 1 << 60
    check_room(1, "a byte")


def test_more_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_room, "available", lambda: 3 << 30)
    check_room(3 << 29, "the array", times=2)
    with pytest.raises(RoomError) as caught:
        check_room(1 << 40, "the array", times=2)
    assert str(caught.value).startswith(
        "the array would take 2.0 TiB of memory (2 times 1.0 TiB), of which 3.0 GiB is available"
    )
    assert (shown(5), shown(1024), shown(3 << 29)) == ("5 bytes", "1.0 KiB", "1.5 GiB")


@pytest.mark.parametrize(
    ("grid", "argument", "said"),
    [
        ("1000000000", "out:uint32:32", "grid (1000000000, 1, 1) has 1,000,000,000 CTAs"),
        ("1", "out:uint32:1000000000000x4", "is too large; legal: an array of at most 68,719,476,736 bytes"),
        ("1", f"out:uint32:{'9' * 400}", "is too large"),
        ("1", "out:uint8:60000000000", "would take"),
    ],
)
def test_launches_that_are_too_large(
    tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch, grid: str, argument: str, said: str
) -> None:
    monkeypatch.setattr(memory_room, "available", lambda: 1 << 30)
    (tmp_path / "k.ptx").write_text(NOTHING)
    code, out, err = tcsim("launch", str(tmp_path / "k.ptx"), "--grid", grid, "--block", "32", "--arg", argument)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


def test_buffers_of_a_capture_that_are_too_large(tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_room, "available", lambda: 1 << 30)
    (tmp_path / "k.ptx").write_text(NOTHING)
    content = {
        "ptx": "k.ptx", "entry": "k", "target": "sm_80", "grid": [1], "block": [32], "params": [{"buffer": "A"}],
        "buffers": {"A": {"bytes": 1 << 35, "zero": True}},
    }  # fmt: skip
    (tmp_path / "k.json").write_text(json.dumps(content))
    code, out, err = tcsim("launch", str(tmp_path / "k.json"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "k.json: the buffers would take 32.0 GiB of memory, of which 1.0 GiB is available" in err


def test_the_list_of_an_archive_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 4,000 arrays it took minutes to read it again for each."""
    write_arrays(tmp_path / "many.npz", {f"a{number}": np.full(1, number) for number in range(300)})
    file = ArrayFile(tmp_path / "many.npz", "an archive")
    monkeypatch.setattr("zipfile.ZipFile._RealGetContents", None)  # what would read it again
    assert [int(file.read(name)[0]) for name in file.names] == list(range(300))
