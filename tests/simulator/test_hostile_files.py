"""Files that somebody made to break what reads them: one line, exit code 2, in a second, and no word that does
something to a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.chip.config import load_config
from simulator.errors import ConfigError
from tests.support.kernels import NOTHING

Tcsim = Callable[..., tuple[int, str, str]]
DIGITS = "9" * 400


def refused(tcsim: Tcsim, *line: str) -> str:
    """What a command says that cannot be done."""
    code, out, err = tcsim(*line)
    assert (code, out, err.count("\n")) == (2, "", 1), (line, out, err)
    return err


def test_loops_in_loops_that_no_run_ends(tmp_path: Path, tcsim: Tcsim) -> None:
    path = tmp_path / "nest.trace"
    body = ".repeat 1000000 {\n" * 30 + "add.u32 %r0, %r0, 5;\n" + "}\n" * 30
    path.write_text(f".trace 1\n.target sm_90a\n.warps 1\n.warp 0 {{\n{body}}}\n")
    said = refused(tcsim, "run", str(path))
    assert "nest.trace:7:9: with the loops around it, this body would run 1.0e+18 times" in said


def test_many_stores_are_looked_up_by_name(tmp_path: Path, tcsim: Tcsim) -> None:
    path = tmp_path / "stores.trace"
    stores = "".join(f'.store "r{number}", %r0, 1;\n' for number in (*range(2000), 1000))
    path.write_text(f".trace 1\n.target sm_90a\n.warps 1\n.warp 0 {{\nmov.b32 %r0, 1;\n}}\n{stores}")
    assert "stores.trace:2007:1: two .store statements named 'r1000'" in refused(tcsim, "run", str(path))


@pytest.mark.parametrize(
    "given",
    [
        f"sm.warps={DIGITS}",
        f"chip.clock_mhz={DIGITS}",
        "l2.read_bytes=x1e400",
        "sm.warps=x1e999999999",
        "chip.sms=1e400",
    ],
)
def test_numbers_that_no_chip_has(given: str) -> None:
    with pytest.raises(ConfigError, match=" legal: "):
        load_config("h100_sxm", [given])


def test_keys_of_thousands_of_parts(tmp_path: Path, tcsim: Tcsim) -> None:
    path = tmp_path / "long.toml"
    for text in (".".join("a" * 20_000) + " = 1", "[" + ".".join(["'b'"] * 20_000) + "]"):
        path.write_text(f'base = "h100_sxm"\n{text}\n')
        assert "a key of 64 parts or more" in refused(tcsim, "config", str(path))


def test_names_do_nothing_to_a_terminal(tmp_path: Path, tcsim: Tcsim) -> None:
    path = tmp_path / "esc.toml"
    path.write_text('base = "h100_sxm"\nname = "\\u001b]0;pwned\\u0007\\u001b[31mX\\u202e"\n')
    code, out, _ = tcsim("config", str(path))
    assert code == 0
    assert "\\x1b]0;pwned\\x07\\x1b[31mX\\u202e" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)


CAPTURE: dict[str, Any] = {
    "ptx": "k.ptx", "entry": "k", "target": "sm_80", "grid": [1], "block": [32], "params": [{"buffer": "A"}],
    "buffers": {"A": {"bytes": 64, "zero": True}},
}  # fmt: skip
WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"params": [{"buffer": ["A"]}]}, 'params[0].buffer: no buffer ["A"]'),
    ({"params": [{"u64": float("inf")}]}, "params[0].u64: Infinity"),
    ({"params": [{"u64": True}]}, "params[0].u64: true"),
    ({"entry": ["k"]}, 'entry: ["k"] is no name'),
    ({"ptx": {"k": 1}}, 'ptx: {"k": 1} is no name'),
    ({"counters": {"warp_instructions": "many"}}, 'counters.warp_instructions: "many"; legal: a number from 0 on'),
    ({"counters": {"sms_used": float("nan")}}, "counters.sms_used: NaN"),
    ({"tensor_maps": 5}, "tensor_maps: 5"),
    ({"tensor_maps": [5]}, "tensor_maps[0]: 5"),
    ({"buffers": {"A": {"bytes": 64, "zero": "no"}}}, 'buffers.A.zero: "no"; legal: true or false'),
    ({"buffers": {"A": {"bytes": 64, "type": ["uint8"]}}}, 'buffers.A.type: ["uint8"]'),
    ({"buffers": {"A": {"bytes": 64, "shape": [True]}}}, "buffers.A.shape: [true]"),
    ({"buffers": {"A": {"bytes": 10**400}}}, "buffers.A.bytes: 1000"),
    ({"grid": [10**400]}, "grid[0]: 1000"),
    ({"grid": "1"}, 'grid: "1"'),
)


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_entries_of_a_capture(tmp_path: Path, tcsim: Tcsim, wrong: dict[str, Any], said: str) -> None:
    (tmp_path / "k.ptx").write_text(NOTHING)
    (tmp_path / "k.json").write_text(json.dumps(CAPTURE | wrong))
    found = refused(tcsim, "launch", str(tmp_path / "k.json"))
    assert said in found
    assert len(found) < 400


def test_a_table_of_a_sweep_with_its_head_alone(tmp_path: Path, tcsim: Tcsim) -> None:
    (tmp_path / "head.csv").write_text("config,cycles,error\n")
    assert "head.csv: a table without rows" in refused(tcsim, "sweep", str(tmp_path / "head.csv"))
