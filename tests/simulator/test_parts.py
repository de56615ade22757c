"""Parts of an output that is made block by block: which of them are believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.errors import ConfigError
from simulator.parts import Parts


def test_a_part_that_is_cut_short_is_done_again(tmp_path: Path) -> None:
    """At any byte, also at the end of a line."""
    parts = Parts(tmp_path / "r.csv", "this run\n", 2, "csv")
    assert parts.open() == 0
    parts.keep(0, b"1,a\n2,b\n")
    parts.keep(1, b"3,c\n")
    assert (parts.missing, b"".join(parts.lines())) == ([], b"1,a\n2,b\n3,c\n")
    path = parts.folder / "000000.csv"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"000000\.csv: was changed"):
            list(parts.lines())
        assert (parts.open(), parts.missing) == (1, [0])
    parts.keep(0, b"1,a\n2,b\n")
    assert path.read_bytes() == whole
    parts.remove()
    assert list(tmp_path.iterdir()) == []


def test_parts_of_another_run(tmp_path: Path) -> None:
    mine, other = (Parts(tmp_path / "r.csv", f"{name}\n", 1) for name in ("mine", "other"))
    assert not mine.foreign
    mine.open()
    assert (mine.foreign, other.foreign) == (False, True)
    (mine.folder / "run").unlink()
    mine.keep(0, b"1\n")
    assert mine.foreign, "parts of nobody knows what"
