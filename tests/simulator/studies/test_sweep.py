"""Sweeps: what a specification may say, tables that are the same however they were made, and what is read off them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import simulator
from simulator import parts as parts_module
from simulator.chip.config import load_config
from simulator.errors import ConfigError, Error, ViewError
from simulator.parallel import ClusterError
from simulator.studies.gemm import estimate, parse_tile
from simulator.studies.sweep import (
    execute,
    forecast,
    heatmap,
    pareto,
    read,
    read_spec,
    run,
    sweep_of,
    tornado,
    write_heatmap,
    write_pareto,
    write_tornado,
)
from simulator.studies.sweep.shapes import read_layers
from tests.support.cases import exhaustive
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]
GEMM: dict[str, Any] = {"m": 256, "n": [128, 256], "k": 64, "tile": "64x64", "path": "mma", "sparse": [True, False]}
GEMM |= {"chip.clock_mhz": [1000, 1755]}
SIZES = {"m": 64, "n": 64, "k": 64}


# What a point is


@exhaustive
def test_rows_are_what_the_gemm_model_says_in_the_order_of_the_axes() -> None:
    frame = run(GEMM | {"relative": {"sparse": False}}, workers=1)
    assert len(frame) == 8
    assert frame["chip.clock_mhz"].tolist() == [1000] * 4 + [1755] * 4
    assert frame["n"].tolist() == [128, 128, 256, 256] * 2
    for row in frame.to_dict("records"):
        chip = load_config("h100_sxm", {"chip.clock_mhz": row["chip.clock_mhz"]})
        tile = parse_tile("64x64", "f16", stages=4, sparse=row["sparse"])
        found = estimate(tile, 256, row["n"], 64, chip)
        assert (row["cycles"], row["time_us"], row["error"]) == (found.cycles, found.time_us, "")
    sparse, dense = frame["time_us"][frame["sparse"]].to_numpy(), frame["time_us"][~frame["sparse"]].to_numpy()
    assert frame["speedup"][frame["sparse"]].tolist() == (dense / sparse).tolist()


def test_traces_give_the_time_of_a_run_of_their_own() -> None:
    frame = run({"config": ["h100_sxm", "a100"], "trace": "digits/f16_99kb", "chip.sms": ["x1", "x2"]}, workers=1)
    for name, mine in frame.groupby("config"):
        report = simulator.run("digits/f16_99kb", str(name), arithmetic="none")
        assert mine["cycles"].tolist() == [report.cycles] * 2
        once, twice = mine["tflops"]
        assert once == pytest.approx(report.throughput.tflops_chip)
        assert twice == pytest.approx(2 * once)


@exhaustive
def test_what_the_engine_remembers_differs_where_the_engine_sees_a_difference() -> None:
    spec = {
        "m": 64,
        "n": 64,
        "k": 64,
        "tile": "64x64",
        "path": "mma",
        "tensor.sparse_full_k.interval": [8, 16],
        "shared.latency": ["x1", "x2"],
    }
    cycles = run(spec, workers=1)["cycles"]
    assert cycles[0] != cycles[2] != cycles[3]


def test_an_error_of_a_point_costs_no_other(tcsim: Tcsim, tmp_path: Path) -> None:
    spec = tmp_path / "some.toml"
    spec.write_text('m = 64\nn = 64\nk = 64\ntype = ["f16", "b1"]\n')
    code, _, err = tcsim("sweep", str(spec), "--output", str(tmp_path / "out.csv"), "--workers", "1")
    frame = read(tmp_path / "out.csv")
    assert code == 1
    assert "1 of 2 points have no answer" in err
    assert frame["cycles"].notna().tolist() == [True, False]
    assert "type 'b1' is not one of the generator's for mma.sp" in frame["error"][1]


def test_layers_that_come_with_tcsim_add_up_to_their_networks() -> None:
    """Multiply-adds of ResNet-50 v1.5 (4.09 billion), parameters of BERT-large's encoder and of Llama-3-8B without its
    embedding (8.03 - 0.53 billion): published."""
    totals = {}
    for name in ("resnet50", "bert_large", "llama3_8b"):
        columns, rows = read_layers(name)
        assert columns == ("network", "layer", "m", "n", "k", "count", "source")
        n = (lambda row: row[3]) if name == "resnet50" else (lambda row: 1)
        totals[name] = sum(row[2] * n(row) * row[4] * row[5] for row in rows) / 1e9
    assert totals == pytest.approx({"resnet50": 4.09, "bert_large": 0.302, "llama3_8b": 7.505}, rel=2e-3)


def test_sweeps_that_come_with_tcsim_can_be_asked() -> None:
    counts = {path.stem: sweep_of(path.stem).count for path in (ROOT / "configs" / "sweeps").glob("*.toml")}
    studies = {"energy_2of4": 8, "llama3_8b_chips": 192, "operand_port": 16, "pays_size": 35, "pays_tile": 16}
    assert counts == {"cusparselt": 40, "llama3_8b": 48, "small": 6} | studies


def test_ranges_zipped_axes_and_a_million_points() -> None:
    spec = {
        "m": {"from": 64, "to": 64_000, "step": 64},
        "n": {"from": 64, "to": 1024, "count": 5, "log": True},
        "k": 512,
        "path": "mma",
        "zip": [{"sm.warps": [48, 64], "chip.sms": [100, 132]}],
        "axes": {"chip": {"clock_mhz": {"from": 1000, "to": 1990, "step": 10}}},
    }
    sweep = read_spec(spec)
    assert sweep.count == 1000 * 5 * 2 * 100
    kind, last = sweep.point(sweep.count - 1)
    assert (kind, last["m"], last["n"], last["sm.warps"], last["chip.sms"]) == ("gemm", 64_000, 1024, 64, 132)
    assert [sweep.point(i)[1]["n"] for i in range(5)] == [64, 128, 256, 512, 1024]
    found = forecast(sweep, seconds=0.0)
    assert (found.points, found.tried) == (1_000_000, 1)
    assert found.counted < 1_000
    assert 200 <= found.simulations <= 1_000_000  # clocks and warps at least: L2 has its own clock


# Bad input


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tiel": "128x128"}, "unknown key, did you mean 'tile'?"),
        ({"tensor.sparse_full_k.intervall": 4}, "did you mean 'interval'?"),
        ({"tensor.sparse_ful.interval": 4}, "did you mean 'tensor.sparse_full'?"),
        ({"chip.clock_mhz": [1000, 0]}, "above 0 and up to 10,000 (MHz)"),
        ({"m": 0}, "an integer from 1 to 16,777,216"),
        ({"stages": [4, 13]}, "one of 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"),
        ({"path": "cuda"}, "one of mma, wgmma, tcgen05"),
        ({"tile": "100x100"}, "100 rows; legal: 128, 256"),
        ({"tile": "100x100", "path": "mma"}, "16, 32 or 64 rows for each warp along M"),
        ({"tile": "large"}, "BMxBN"),
        ({"config": "h100"}, "did you mean 'h100_sxm'?"),
        ({"n": {"from": 8, "to": 4}}, "a step towards the end"),
        ({"n": []}, "at least one value"),
        ({"zip": [{"sm.warps": [48], "chip.sms": [100, 132]}]}, "different lengths"),
        ({"subject": [{"layers": "llama3"}]}, "did you mean 'llama3_8b'?"),
        ({"subject": [{"trace": "digits/f17"}]}, "m: no subject has this key"),
        ({"limit": 1, "k": [64, 128]}, "2 points; legal: at most 1"),
        ({"relative": {"spars": False}}, "did you mean 'sparse'?"),
    ],
)
def test_what_cannot_be_is_found_before_anything_runs(change: dict[str, Any], said: str) -> None:
    spec = {key: value for key, value in (SIZES | change).items() if "layers" not in str(change) or key == "subject"}
    with pytest.raises(Error) as raised:
        sweep_of(spec)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "no such sweep"),
        (("small", "--pareto", "time_us,energy"), "without a file"),
        (("small", "--pareto", "time_us", "--output", "x.svg"), "2 names of columns"),
        (("small", "--tornado", "tim_us", "--output", "x.svg"), "did you mean 'time_us'?"),
        (("small", "--output", "x.txt"), "there is no such format"),
        (("small", "--dask", "tcp://127.0.0.1:9"), "no Dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_bad_use_is_one_line(
    tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    if "--dask" in arguments:
        pytest.importorskip("distributed")
        monkeypatch.setattr("simulator.parallel.CONNECT", "200ms")
    code, out, err = tcsim("sweep", *arguments)
    lines = [line for line in err.splitlines() if not line.endswith(" points")]
    assert (code, out, len(lines)) == (2, "", 1)
    assert said in lines[0]


# Interruption


@pytest.mark.exhaustive
def test_a_killed_sweep_continues_to_the_same_bytes(tmp_path: Path) -> None:
    """SIGKILL to all its processes; one finished part is cut short as well, and is not believed."""
    spec = tmp_path / "points.toml"
    spec.write_text("path = 'mma'\nm = 128\nn = 128\nk = { from = 64, to = 768, step = 64 }\n")
    command = [sys.executable, "-m", "simulator", "sweep", str(spec), "--workers", "2"]
    whole, output = tmp_path / "whole.csv", tmp_path / "killed.csv"
    process = subprocess.Popen(
        [*command, "--output", str(output)], cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL
    )
    parts, deadline = output.with_name("killed.csv.parts"), time.monotonic() + 60
    while len(list(parts.glob("[0-9]*.part"))) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = sorted(parts.glob("[0-9]*.part"))
    assert 3 <= len(kept) < 12
    kept[0].write_bytes(kept[0].read_bytes()[:-5])
    assert not output.exists()
    summary = execute(spec, output, workers=1)
    assert (summary.resumed, summary.spoilt, summary.points) == (len(kept) - 1, 1, 12)
    execute(spec, whole, workers=1)
    assert output.read_bytes() == whole.read_bytes()
    assert not parts.exists()


def test_parts_of_another_sweep_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out.csv"
    _break_after(monkeypatch, 1)
    with pytest.raises(OSError):
        execute(SIZES | {"n": [64, 128]}, output, workers=1)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"points of another sweep.*--restart"):
        execute(SIZES | {"n": [64, 256]}, output, workers=1)
    assert execute(SIZES | {"n": [64, 256]}, output, workers=1, restart=True).points == 2


def test_a_full_disk_leaves_what_was_finished(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, output = tmp_path / "s.toml", tmp_path / "out.csv"
    spec.write_text("m = 64\nn = [64, 128, 192]\nk = 64\n")
    output.write_text("of before\n")
    _break_after(monkeypatch, 2)
    code, _, err = tcsim("sweep", str(spec), "--output", str(output), "--workers", "1")
    assert code == 2
    assert "No space left on device" in err.splitlines()[-1]
    assert output.read_text() == "of before\n"
    monkeypatch.undo()
    assert execute(spec, output, workers=1).resumed == 2
    assert len(read(output)) == 3


def _break_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Lets the disk be full after so many parts."""
    kept = parts_module.Parts.keep
    done: list[int] = []

    def keep(self: parts_module.Parts, number: int, lines: bytes) -> None:
        if len(done) == count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done.append(number)
        kept(self, number, lines)

    monkeypatch.setattr(parts_module.Parts, "keep", keep)


# Formats and clusters


def test_parquet_holds_what_csv_holds(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    spec = GEMM | {"relative": {"sparse": False}}
    csv, parquet = (run(spec, output=tmp_path / f"t{suffix}", workers=1) for suffix in (".csv", ".parquet"))
    pd.testing.assert_frame_equal(csv, parquet)
    first = (tmp_path / "t.parquet").read_bytes()
    run(spec, output=tmp_path / "t.parquet", workers=2)
    assert (tmp_path / "t.parquet").read_bytes() == first


@pytest.mark.exhaustive
def test_a_cluster_that_loses_a_worker_gives_the_same_table(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    spec = {"m": 64, "n": 64, "tile": "64x64", "path": "mma", "k": {"from": 64, "to": 1536, "step": 64}}
    plain, output = tmp_path / "plain.csv", tmp_path / "dask.csv"
    execute(spec, plain, workers=1)
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster:
        killed: list[int] = []

        def kill(progress: Any) -> None:
            if progress.done >= 5 and not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        execute(spec, output, dask=cluster.scheduler_address, progress=kill)
    assert killed
    assert output.read_bytes() == plain.read_bytes()


def test_a_process_that_dies_is_one_error(tmp_path: Path) -> None:
    from simulator.parallel import worked

    with pytest.raises(ClusterError, match="fewer --workers"):
        list(worked(_die, "", iter([(0, 0), (1, 1)]), 2, "", 2))


def _die(key: str, block: Any) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


# What is read off a table


def _frame() -> pd.DataFrame:
    rows = [
        {"config": c, "sm.warps": w, "time_us": t, "power_w": p, "tflops": 1000 / t, "error": ""}
        for c, w, t, p in (("a", 1, 9.0, 5.0), ("a", 2, 7.0, 6.0), ("b", 1, 8.0, 4.0), ("b", 2, 3.0, 7.0))
    ]
    return pd.DataFrame([*rows, {"config": "c", "sm.warps": 1, "error": "no answer"}])


def test_pareto_front_grid_and_sensitivities() -> None:
    frame = _frame()
    assert pareto(frame, ("time_us", "power_w"))["time_us"].tolist() == [3.0, 7.0, 8.0]
    assert pareto(frame, ("tflops", "max:power_w"))["time_us"].tolist() == [3.0]
    assert heatmap(frame, "sm.warps", "config", "time_us").to_numpy().tolist() == [[9.0, 7.0], [8.0, 3.0]]
    found = tornado(frame, "time_us", {"config": "b"})
    assert found[["key", "low", "high", "at_low", "at_high"]].to_numpy().tolist() == [
        ["sm.warps", 3.0, 8.0, 2, 1],
        ["config", 8.0, 9.0, "b", "a"],
    ]
    with pytest.raises(ViewError, match="did you mean 'time_us'"):
        pareto(frame, ("time", "power_w"))
    with pytest.raises(ViewError, match=r"no point has sm\.warps = 3; legal: 1, 2"):
        tornado(frame, "time_us", {"sm.warps": 3})


@pytest.mark.parametrize("suffix", [".svg", pytest.param(".pdf", marks=pytest.mark.exhaustive)])
def test_pictures_are_written_and_say_what_they_show(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    frame = _frame()
    write_pareto(frame, ("time_us", "power_w"), tmp_path / f"p{suffix}")
    write_heatmap(frame, "sm.warps", "config", "time_us", tmp_path / f"h{suffix}")
    write_tornado(frame, "time_us", tmp_path / f"t{suffix}")
    if suffix == ".svg":
        texts = [(tmp_path / f"{name}.svg").read_text() for name in "pht"]
        assert all("time (µs)" in text for text in texts)
        assert "Pareto front" in texts[0]
        assert "sm.warps" in texts[2]


def test_tables_that_were_written_are_drawn_again(tcsim: Tcsim, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _frame().to_csv(tmp_path / "t.csv", index=False)
    code, out, err = tcsim("sweep", str(tmp_path / "t.csv"), "--heatmap", "sm.warps,config,tflops", "--output",
                           str(tmp_path / "h.png"))  # fmt: skip
    assert (code, out) == (1, "")  # of a point there is no answer
    assert "1 of 5 points" in err
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
