"""Generated GEMM kernels: right products, legal tiles, estimates near what an H100 took."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from isa import IsaError
from simulator.chip.config import config_names, load_config
from simulator.cli.main import main
from simulator.errors import ConfigError
from simulator.studies.gemm import Tile, estimate, kernel_trace, parse_tcgen05_tile, parse_tile, runs, tile_for
from simulator.studies.gemm.estimate import kernel_cycles
from simulator.studies.gemm.held import dram_bytes
from simulator.studies.gemm.layout import layout
from simulator.studies.gemm.tile import instructions
from simulator.studies.validation import gemm
from tests.support.cases import alike, examples, exhaustive, over
from tests.support.paths import ROOT
from tests.support.scattered import scattered

TRACES = ROOT / "traces" / "gemm"


def test_the_shipped_trace_gives_the_product() -> None:
    report = simulator.run("gemm/f16_64x64x64")
    wanted = np.load(TRACES / "f16_64x64x64.npz")["product"]
    assert np.array_equal(report.arrays["d"].view(np.float32).reshape(64, 64), wanted)
    assert not report.undefined
    assert not report.warnings
    assert report.memory.conflicts == 0


NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
KINDS = [(name, accumulator, sparse) for (name, sparse), found in instructions().items() for accumulator in found]


def _raw(values: np.ndarray, kind: str) -> np.ndarray:
    """Elements as memory holds them: narrow ones several to a byte, but e2m1 as mma takes it, in bits 2 to 5."""
    if kind in ("s4", "u4", "b1"):
        bits = 1 if kind == "b1" else 4
        parts = (values.astype(np.int64) & (1 << bits) - 1).reshape(len(values), -1, 8 // bits)
        return (parts << bits * np.arange(8 // bits)).sum(axis=-1).astype(np.uint8)
    cast = values.astype(NUMPY[kind])
    return cast.view(f"u{cast.itemsize}") << (2 if kind == "e2m1" else 0)


def _operands(tile: Tile, k: int, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Small integers as the kernel reads them, and the product; metadata by PTX's figures, lane by lane."""
    low, high = (0, 2) if tile.type in ("u8", "u4", "b1") else (-2, 3)
    stored = k // 2 if tile.sparse else k
    a, b = rng.integers(low, high, (tile.bm, stored)), rng.integers(low, high, (tile.bn, k))
    full, words = a, np.zeros(1, np.uint32)
    if tile.sparse:
        wide = tile.bits >= 16
        kept, unit = (1, 1) if tile.bits == 32 else (2, 2 if tile.bits == 4 else 1)
        full, codes = scattered(a, kept, unit, rng)
        words = np.zeros((codes.shape[1] // 16, tile.warps_m, 32, tile.tiles_m), np.uint32)
        for block, warp, lane, m in np.ndindex(words.shape):
            row, (group, within) = 16 * (warp * tile.tiles_m + m), divmod(lane, 4)
            for q in range(8):
                if wide:
                    at = row + group + 8 * (q >> 2), 16 * block + 4 * within + (q & 3)
                else:
                    at = row + group + 8 * (within & 1), 16 * block + 8 * (within >> 1) + q
                words[block, warp, lane, m] |= np.uint32(codes[at] << 4 * q)
    kind = "s4" if tile.bits == 4 else tile.type
    if tile.type == "e2m1" and tile.bits == 4:  # two to a byte: 0, 1, 2, -1, -2
        codes = np.array([0, 2, 4, 0xC, 0xA])
        arrays = {"a": _raw(codes[a], kind), "b": _raw(codes[b], kind), "e": words}
    else:
        arrays = {"a": _raw(a, tile.type), "b": _raw(b, tile.type), "e": words}
    if not tile.factors:
        return arrays, full @ b.T
    arrays["s"], (scale_a, scale_b) = _scales(tile, k, rng)
    return arrays, (full * scale_a) @ (b * scale_b).T


def _scales(tile: Tile, k: int, rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """Scale factors 1, 2 and 4 as the kernel reads them, and for each element of A and of B: PTX ISA 9.0, 9.7.14.3."""
    block = tile.form.k // tile.factors  # elements of K, pruned ones counted, that share a factor
    codes = {"ue8m0": (127, 128, 129), "ue4m3": (0x38, 0x40, 0x48)}[tile.form.row.scale.split(" ")[1]]
    exponents = [rng.integers(0, 3, (rows, k // block)) for rows in (tile.bm, tile.bn)]
    parts = []
    for i in range(k // tile.bk):
        for exponent, warps, tiles, height in (
            (exponents[0], tile.warps_m, tile.tiles_m, 16),
            (exponents[1], tile.warps_n, tile.tiles_n, 8),
        ):
            of = np.array(codes, np.uint8)[exponent[:, i * tile.bk // block : (i + 1) * tile.bk // block]]
            of = np.pad(of, ((0, 0), (0, -of.shape[1] % 4)))
            words = np.ascontiguousarray(of).view(np.uint32).reshape(warps, tiles, height, -1)
            parts.append(words.transpose(3, 0, 2, 1).reshape(-1))
    return np.concatenate(parts), [np.repeat(2**exponent, block, axis=1) for exponent in exponents]


def _check(tile: Tile, tiles: int, folder: Path) -> None:
    """Runs the kernel of a tile on operands of its own."""
    depth = tiles * tile.bk
    arrays, product = _operands(tile, depth, np.random.default_rng(tiles))
    np.savez(folder / "x.npz", **arrays)  # type: ignore[arg-type]
    where = layout(tile, depth)
    loads = "\n".join(
        f'.load global[{at}], "x.npz", "{name}";'
        for name, at in (("a", 0), ("b", where.b), ("e", where.e), ("s", where.s))
        if name in "ab" or (tile.sparse if name == "e" else tile.factors)
    )
    target = "sm_120a" if "kind" in tile.form.opcode or (tile.bits, tile.accumulator) == (8, "f16") else "sm_90a"
    (folder / "x.trace").write_text(kernel_trace(tile, depth, loads=loads, target=target))
    report = simulator.run(folder / "x.trace", None, compare=0)
    dtype = {"s32": np.int32, "f32": np.float32, "f16": np.float16}[tile.accumulator]
    assert np.array_equal(report.arrays["d"].view(dtype).reshape(tile.bm, tile.bn), product)
    assert not report.undefined


def like(kind: str, accumulator: str, sparse: bool) -> tuple[object, ...]:
    """Types whose instructions have the same fragments differ in the opcode alone."""
    form = instructions()[kind, sparse][accumulator]
    return form.shape, accumulator, sparse


@over(("kind", "accumulator", "sparse"), KINDS, distinct=like)
def test_products_of_every_type(tmp_path: Path, kind: str, accumulator: str, sparse: bool) -> None:
    _check(parse_tile("64x64", kind, stages=2, sparse=sparse, accumulator=accumulator), 2, tmp_path)


SCALED = [
    ("e2m1", kind, sparse, size, stages)
    for kind in ("mxf4nvf4", "mxf4", "mxf8f6f4")
    for sparse in (True, False)
    for size, stages in (("64x64", 2), ("128x128", 3), ("64x128x512", 2))
    if kind != "mxf8f6f4" or size != "64x128x512"
] + [("e4m3", "mxf8f6f4", sparse, "64x64x256", 3) for sparse in (True, False)]


@over(("type_name", "kind", "sparse", "size", "stages"), SCALED, distinct=lambda type_name, kind, *_: (type_name, kind))
def test_products_with_block_scales(
    tmp_path: Path, type_name: str, kind: str, sparse: bool, size: str, stages: int
) -> None:
    _check(parse_tile(size, type_name, stages=stages, sparse=sparse, kind=kind), 4, tmp_path)


@exhaustive
def test_fp4_is_packed_where_scales_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Without them e2m1 takes the time of FP8, and the output says so."""
    arguments = ["gemm", "--config", "rtx5090", *(f"--{size}=512" for size in "mnk"), "--tile", "64x64"]
    said = {}
    for kind in ("", "mxf4nvf4", "mxf4"):
        assert main([*arguments, "--type", "e2m1", *(["--kind", kind] if kind else [])]) == 0
        said[kind] = capsys.readouterr().out
    assert "e2m1 (kind f8f6f4, no scales)" in said[""]
    assert "e2m1 without scales is kind::f8f6f4, a byte each at the rate of FP8" in said[""]
    for kind in ("mxf4nvf4", "mxf4"):
        assert f"e2m1 (kind {kind})" in said[kind]
        assert "rate of FP8" not in said[kind]
    chip = load_config("rtx5090")
    plain, packed = (tile_for("128x128", "e2m1", sparse=False, config=chip, kind=kind) for kind in ("", "mxf4nvf4"))
    assert isinstance(plain, Tile)
    assert isinstance(packed, Tile)
    assert chip.tensor_cycles(packed.form) / packed.form.k == 16 / 64  # a quarter of the 32 of m16n8k32
    assert kernel_cycles(packed, 1024, 1024, 1024, chip) < 0.75 * kernel_cycles(plain, 1024, 1024, 1024, chip)
    weight = simulator.sparselt.prune(np.ones((64, 128), np.float32), "e2m1", "strip")
    library = simulator.sparselt.matmul(weight, np.ones((64, 128), np.float32), type="e2m1", config=chip, exact=False)
    assert library.cost is not None
    assert isinstance(library.cost.kernel.tile, Tile)
    assert library.cost.kernel.tile.kind == "mxf4nvf4"  # cuSPARSELt has no other e2m1
    assert main([*arguments, "--type", "e2m1", "--kind", "mxf5"]) == 2
    assert "mxf8f6f4, mxf4, mxf4nvf4" in capsys.readouterr().err
    with pytest.raises(IsaError):
        estimate(parse_tile("64x64", "e2m1", kind="mxf4"), 64, 64, 256, "h100_sxm")


@settings(deadline=None, max_examples=examples(4, 2))
@given(
    st.sampled_from(KINDS),
    st.sampled_from(("64x64", "128x64", "64x128", "128x128")),
    st.sampled_from((128, 256)),
    st.sampled_from((2, 3, 4)),
    st.integers(1, 6),
)
def test_products(
    tmp_path_factory: pytest.TempPathFactory,
    kind: tuple[str, str, bool],
    size: str,
    row: int,
    stages: int,
    tiles: int,
) -> None:
    name, accumulator, sparse = kind
    bits = instructions()[name, sparse][accumulator].a_type.bits
    try:
        tile = parse_tile(f"{size}x{row * 8 // bits}", name, stages=stages, sparse=sparse, accumulator=accumulator)
    except IsaError:
        return
    if tile.shared_bytes <= load_config("h100_sxm").sm.shared_bytes:
        _check(tile, tiles, tmp_path_factory.mktemp("gemm"))


@pytest.mark.parametrize(
    ("text", "kind", "warps", "stages", "reason"),
    [
        ("128", "f16", None, 3, "not a tile"),
        ("100x128x64", "f16", None, 3, "rows for"),
        ("128x128x32", "f16", None, 3, "bk = 32"),
        ("128x128x64", "f64", None, 3, "not one of the generator's"),
        ("128x128x64", "f16", (1, 1), 3, "rows for 1 warps"),
        ("256x256x64", "f16", (4, 1), 3, "registers"),
        ("128x128x64", "f16", (2, 2), 9, "9 stages"),
    ],
)
def test_tiles_that_are_none(text: str, kind: str, warps: tuple[int, int] | None, stages: int, reason: str) -> None:
    with pytest.raises(IsaError, match=reason) as error:
        parse_tile(text, kind, warps=warps, stages=stages)
    assert error.value.legal


@pytest.mark.exhaustive
def test_estimates() -> None:
    tile = parse_tile("128x256x64", "f16", stages=4)
    found = estimate(tile, 4096, 4096, 4096)
    assert (found.ctas, found.resident, found.waves) == (512, 1, 4)
    measured = next(
        line
        for line in gemm._table("h100_gemm_chip.csv")
        if line["variant"] == "f16_128x256x64_w2x4_s4" and line["m"] == line["n"] == "4096"
    )
    assert abs(found.time_us / float(measured["best_us"]) - 1) < 0.1
    assert abs(found.cycles / (float(measured["first_to_last_us"]) * float(measured["mhz"])) - 1) < 0.1
    small = estimate(tile, 128, 256, 4096)
    assert small.waves == 1
    assert small.cycles < found.wave_cycles * 1.05


@pytest.mark.exhaustive
def test_long_main_loops_are_taken_from_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the whole of K says, but for some percent in loops that fall into no period; to the cycle in others."""
    for config, text, kind, sparse, off in (
        ("h100_sxm", "128x128", "f16", True, 0.03),
        ("h100_sxm", "64x64", "f16", True, 0.04),
        ("h100_sxm", "128x128", "f16", False, 1e-4),
        ("rtx4090", "128x64", "f16", True, 1e-4),
    ):
        tile, chip = parse_tile(text, kind, sparse=sparse), load_config(config)
        size = (4096, 4096, 160 * tile.bk, chip)
        short = kernel_cycles(tile, *size)
        with monkeypatch.context() as patched:
            patched.setattr(runs, "LONG", 1_000)
            whole = kernel_cycles(tile, *size)
        assert abs(short / whole - 1) <= off, (config, text)


@exhaustive
def test_ctas_are_spread_over_sms_and_follow_each_other_in_places() -> None:
    tile = parse_tile("64x64", "f16", stages=4)
    grids = ((1, 1), (11, 12), (22, 24), (32, 33))
    one, sms, places, more = (estimate(tile, 64 * rows, 64 * columns, 256) for rows, columns in grids)
    assert one.resident == 4
    assert [(x.waves, x.next_cycles > 0) for x in (one, sms, places, more)] == [(1, False)] * 3 + [(2, True)]
    assert one.cycles <= sms.cycles < places.cycles  # a CTA has an SM for itself as long as there are any
    launch, hbm = load_config("h100_sxm").launch, load_config("h100_sxm").hbm
    assert launch is not None
    assert hbm is not None
    ran = places.wave_cycles + more.next_cycles
    assert more.cycles == ran + round(launch.spread * ran) + hbm.latency
    assert more.next_cycles < places.wave_cycles + 900  # out of step, their epilogues do not meet


@over(
    ("config", "kind", "size", "library_us"),
    [("h100_sxm", "f16", 1024, 8.9), ("a100", "s8", 512, 6.7), ("a100", "f16", 512, 8.3), ("rtx4090", "s8", 512, 8.8)],
    distinct=alike,
)
def test_a_launch_takes_no_longer_than_whole_products(config: str, kind: str, size: int, library_us: float) -> None:
    """2:4 products as cuSPARSELt was timed, over many launches (configs/workloads/cusparselt_*.csv). A launch from the
    host, 9.7 us, was counted for each of them, so that the fixed part alone took longer than all of it."""
    found = estimate(parse_tile("128x64", kind, stages=4), size, size, size, config)
    launch = load_config(config).launch
    assert launch is not None
    assert found.once_us - found.time_us == pytest.approx((launch.overhead_ns - launch.gap_ns) / 1e3)
    assert launch.gap_ns / 1e3 < 0.4 * library_us
    assert found.time_us < 1.05 * library_us


def test_a_launch_of_the_host_and_one_of_a_stream() -> None:
    """Each has its key; a config with neither has launches that take no time."""
    tile = parse_tile("64x64", "f16", stages=4)
    one, two = (
        estimate(tile, 64, 64, 256, load_config("h100_sxm", {"launch.gap_ns": gap, "launch.overhead_ns": once}))
        for gap, once in ((0, 5000), (700, 9000))
    )
    assert one.cycles == two.cycles
    assert two.time_us - one.time_us == pytest.approx(0.7)
    assert two.once_us - one.once_us == pytest.approx(4)


def test_estimates_that_cannot_be_made() -> None:
    tile = parse_tile("128x256", "f16", stages=4)
    for sizes in ((0, 1, 1), (1, 10**22, 1), (1, 1, -5)):
        with pytest.raises(IsaError, match=f"= {next(size for size in sizes if size != 1):,}"):
            estimate(tile, *sizes)
    with pytest.raises(ConfigError, match="h100_sxm has no tcgen05"):
        estimate(parse_tcgen05_tile("128x128", "f16"), 4096, 4096, 4096)
    with pytest.raises(IsaError, match="not available on sm_80"):
        estimate(parse_tile("64x64", "e4m3"), 64, 64, 64, "a100")
    with pytest.raises(ConfigError, match=r"no time for 'mma\.sync\.aligned\.m16n8k256"):
        estimate(parse_tile("64x64", "b1", sparse=False), 64, 64, 64)


@over("config", config_names(), distinct=lambda config: re.findall("^[a-z]+", config)[0])
def test_every_config_answers(config: str) -> None:
    blackwell = load_config(config).tcgen05 is not None
    tile = tile_for("128x32" if blackwell else "64x64", "f16", sparse=True, stages=3, config=config)
    found = estimate(tile, 60, tile.bn, 50, config)
    assert found.cycles > 0
    assert found.assumed[-1] == f"the matrices are filled up to whole tiles: {tile.bm} x {tile.bn} x {tile.bk}"
    assert any(line.startswith("[memory] assumed") for line in found.assumed) is (
        config not in ("h100_sxm", "h200", "h800_pcie")  # the second has the memory path of the first
    )


def test_default_stages_fit() -> None:
    """A CTA of the default tile has its four stages where an SM has the room, else what fits; a number that is asked
    for is not changed."""
    found = {config: tile_for("", "f16", sparse=True, config=config) for config in ("a100", "rtx3070ti", "rtx5090")}
    assert {config: tile.stages for config, tile in found.items()} == {"a100": 4, "rtx3070ti": 3, "rtx5090": 3}
    assert all(tile.shared_bytes <= load_config(config).sm.shared_bytes for config, tile in found.items())
    assert tile_for("", "f16", sparse=True, stages=4, config="rtx5090").stages == 4


@exhaustive
def test_types_take_the_time_of_their_own_instructions() -> None:
    """On an RTX 4090 f32 accumulators halve the rate of f16; on an H100 4 bits and FP8 are sequences, and slow."""

    def cycles(kind: str, config: str, accumulator: str = "", size: str = "64x64") -> int:
        tile = parse_tile(size, kind, stages=3, accumulator=accumulator)
        trace = kernel_trace(tile, 4 * tile.bk, target=load_config(config).target)
        return simulator.run(trace, config, arithmetic="none").cycles

    assert cycles("f16", "rtx4090", "f16") < cycles("f16", "rtx4090")
    assert cycles("f16", "h100_sxm") < 0.9 * cycles("e4m3", "h100_sxm")
    assert cycles("s8", "a100", size="128x128") < cycles("s4", "a100", size="128x128")


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["gemm", "--m", "256", "--n", "256", "--k", "512", "--tile", "64x64x64", "--path", "mma"]
    assert main([*arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ctas"] == 16
    assert found["bound"]
    assert main(arguments) == 0
    assert "bound by" in capsys.readouterr().out
    assert main([*arguments, "--trace", str(tmp_path / "x.trace")]) == 0
    assert simulator.run(tmp_path / "x.trace", arithmetic="none").cycles > 0
    for bad in (
        ["--tile", "1x1x1"],
        ["--warps", "two"],
        ["--k", "-5"],
        ["--m", str(10**22)],
        ["--type", "f64"],
        ["--config", "nowhere"],
        ["--trace", str(tmp_path / "no" / "x")],
    ):
        assert main([*arguments, *bad]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_blocks_of_ctas_bring_less_from_device_memory_than_rows() -> None:
    """At 8192 cuSPARSELt takes 3.4 ms on an RTX 4090 (configs/workloads/cusparselt_rtx4090.csv): no order of CTAs for
    which device memory alone takes longer can be its own."""
    chip, tile = load_config("rtx4090"), parse_tile("128x64", "f16", stages=4, sparse=True)
    rows, blocks = (sum(dram_bytes(tile, 8192, 8192, 8192, chip, rows=rows)) for rows in (True, False))
    assert chip.hbm is not None
    assert blocks / chip.hbm.bytes / chip.chip.clock_mhz < 3400 < rows / chip.hbm.bytes / chip.chip.clock_mhz
    small = 512, 512, 512
    assert dram_bytes(tile, *small, chip, rows=True) == dram_bytes(tile, *small, chip)


@exhaustive
def test_the_ctas_of_an_sm_wait_for_l2_together() -> None:
    """A chip without a least time of a loop: places begin an equal part of a CTA later, not four of them, so that no
    kernel reads much more from L2 than L2 gives (more than twice as much it was)."""
    found = estimate(parse_tile("64x64", "f16", stages=4), 4096, 4096, 2048, "a100")
    assert found.resident > 1
    assert 0.8 < found.shares["L2 reads"] < 1.15
