"""Lists of a config's values, configs written as TOML, and `--set` on every verb."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simulator import ConfigError, load_config
from simulator.chip.config import config_names
from simulator.chip.entries import as_toml, entries, select
from simulator.cli.main import main
from tests.support.cases import exhaustive, over


@over("name", ["h100_sxm", "b200", "rtx5090"])
def test_every_entry_has_a_meaning_and_its_key_sets_it(name: str) -> None:
    """Each has a meaning and legal values, and its key sets it."""
    config, found = load_config(name), entries(name)
    assert all(entry.meaning and entry.legal and entry.source for entry in found)
    assert len({entry.key for entry in found}) == len(found)
    numbers = [
        e
        for e in found
        if e.value.__class__ is int and not e.key.endswith(("stall", "nop", "rows", "bytes", "cta_group"))
    ]
    for entry in numbers[:: max(1, len(numbers) // 6)]:
        changed = entries(name, {entry.key: entry.value + 1})
        other = [one.key for one, before in zip(changed, found, strict=True) if one.value != before.value]
        assert other == [entry.key]
    assert {entry.source for entry in found} == set(config.sources.values())


@over("name", config_names())
def test_a_config_written_as_toml_reads_back_equal(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    overrides = ("chip.sms=x2", "name=own")
    path.write_text(as_toml(name, overrides))
    written, config = load_config(path), load_config(name, overrides)
    assert replace(written, path=config.path, overrides=overrides, bases=config.bases) == config
    assert (written.name, written.status("chip")) == ("own", "assumed")


def test_select_by_table_row_and_pattern() -> None:
    found = entries("h100_sxm")
    assert {e.key for e in select(found, ["tensor.sparse_full_k.interval"], "h")} == {
        f"tensor.sparse_full_k_{kind}.interval" for kind in ("f32", "f16", "s32")
    }
    assert len(select(found, ["tensor.*.interval"], "h")) == 13
    assert {e.table for e in select(found, ["sm", "chip.sms"], "h")} == {"sm", "chip"}
    with pytest.raises(ConfigError, match="did you mean 'shared'"):
        select(found, ["shraed"], "h")


SET = ("--set", "shared.latency=40", "--set", "tensor.sparse_full_k.interval=16")
TRACE = """.trace 1
.target sm_90a
.warps 1
.warp 0 { mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6},
  {%r0, %r1, %r2, %r3}; }
"""
LABEL = "h100_sxm with shared.latency=40; tensor.sparse_full_k.interval=16"


VERBS = ["run own.trace --arithmetic none", "stalls own.trace", "roofline own.trace", "config h100_sxm shared"]
SLOW = ["gemm --m 128 --n 128 --k 128", "faults cost --tile 64x64x64"]


@pytest.mark.parametrize("verb", [*VERBS, *(pytest.param(verb, marks=exhaustive) for verb in SLOW)])
def test_set_on_every_verb(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each names what was set."""
    monkeypatch.chdir(tmp_path)
    Path("own.trace").write_text(TRACE)
    assert main([*verb.split(), *SET]) == 0
    assert LABEL in capsys.readouterr().out


def test_overrides_reach_output_files_and_wrong_ones_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timeline, trace = tmp_path / "t.json", tmp_path / "own.trace"
    trace.write_text(
        TRACE.replace("mma.", "ld.shared.b32 %r7, [%r8]; mma.").replace(".warps 1", ".warps 1\n.shared 64")
    )
    assert main(["run", str(trace), "--format", "json", "--timeline", str(timeline), *SET]) == 0
    report, overrides = json.loads(capsys.readouterr().out), LABEL.partition(" with ")[2]
    assert (report["config"], report["config_overrides"]) == ("h100_sxm", overrides)
    changed = [line.partition("]")[0][1:] for line in report["assumed"] if "assumed: what if " in line]
    assert changed == ["shared", *(f"tensor sparse, full k, {kind}" for kind in ("f16", "f32", "s32"))]
    assert json.loads(timeline.read_text())["otherData"]["config_overrides"] == overrides
    for arguments, words in (
        (["run", "digits/s8", "--config", "none", *SET], "--config NAME with --set"),
        (["run", "digits/s8", "--set", "shared.latenci=3"], "did you mean 'latency'"),
        (["validate", *SET], "--config NAME with --set"),
        (["config", "h100_sxm", "shred"], "did you mean 'shared'"),
        (["config", "h100_sxm", "shared", "--format", "toml"], "whole config"),
        (["config", *SET], "tcsim config NAME"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
