"""Files are written completely or not at all, under the names that users gave, and never in the place of an input."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import numpy as np
import pytest

from simulator.files import complete
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]


def test_verbs_do_not_replace_what_they_read(tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what a file that is given names in turn: the data of a trace, the buffers of a capture."""
    monkeypatch.chdir(tmp_path)
    for path in ("traces/digits/f16.trace", "traces/digits/f16.npz", "configs/a100.toml"):
        copy(ROOT / path, tmp_path)
    for suffix in ("json", "ptx", "npz"):
        copy(ROOT / "tests" / "golden" / "planted" / f"bug0.{suffix}", tmp_path)
    np.save("m.npy", np.ones((32, 64), np.float16))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for line, name in (
        ("run f16.trace --output f16.npz", "f16.npz"),
        ("run f16.trace --timeline ./f16.trace", "f16.trace"),
        ("config a100.toml --output a100.toml", "a100.toml"),
        ("gemm --config a100.toml --trace a100.toml", "a100.toml"),
        ("launch bug0.json --output bug0.npz", "bug0.npz"),
        ("launch bug0.json --output bug0.ptx", "bug0.ptx"),
        ("prune m.npy --type f16 --output m.npy", "m.npy"),
        ("compress m.npy --type f16 --output m.npy", "m.npy"),
    ):
        code, out, err = tcsim(*line.split())
        assert (code, out, err.count("\n")) == (2, "", 1), (line, err)
        assert f"{name}: is an input, and would be replaced by the output" in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_replaced_file_keeps_its_mode_and_a_link_stays(tmp_path: Path) -> None:
    private, link, new = tmp_path / "private.csv", tmp_path / "link.csv", tmp_path / "new.csv"
    private.write_text("before")
    private.chmod(0o640)
    link.symlink_to(private)
    (tmp_path / "dangling.csv").symlink_to(tmp_path / "later.csv")
    umask = os.umask(0o077)
    try:
        for path in (link, new, tmp_path / "dangling.csv"):
            with complete(path) as stream:
                stream.write(b"after")
    finally:
        os.umask(umask)
    assert link.is_symlink()
    assert private.read_text() == (tmp_path / "later.csv").read_text() == "after"
    assert (private.stat().st_mode & 0o777, new.stat().st_mode & 0o777) == (0o640, 0o600)
    (tmp_path / "lost.csv").symlink_to(tmp_path / "nowhere" / "lost.csv")
    with pytest.raises(FileNotFoundError, match="no such folder"), complete(tmp_path / "lost.csv"):
        pass


def test_the_umask_of_the_process_is_never_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to all threads: a file that another one opens meanwhile would be open to everybody."""

    def refused(mask: int) -> int:
        raise AssertionError(mask)

    monkeypatch.setattr("os.umask", refused)
    with complete(tmp_path / "x.csv") as stream:
        stream.write(b"1")


def test_errors_name_the_file_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the temporary one, whose name is not too long where that of the file is not."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", ".x.csv.qvwylalr.part")

    with complete(tmp_path / ("n" * 251 + ".csv")) as stream:
        stream.write(b"1")
    for place in ("os.open", "pathlib.Path.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(place, refused)
            with pytest.raises(PermissionError) as caught, complete(tmp_path / "x.csv"):
                pass
        assert caught.value.filename == str(tmp_path / "x.csv")
    assert len(list(tmp_path.iterdir())) == 1
