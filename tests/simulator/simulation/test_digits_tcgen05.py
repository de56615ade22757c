"""The digits layer with `tcgen05.mma.sp`: the traces against quantisation, layouts and sums that are worked out here.

Operands are quantised here from the network's weights and images; bytes of shared memory, metadata, scale factors and
the registers of `tcgen05.ld` are placed by formulas typed from the documents; neither `isa` nor the programs of
traces/digits take part in that. Sums are those of `simulator.arithmetic.product`, whose rules have tests of their own,
and of float64.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import simulator
from isa.types import PACKED_E2M1
from simulator.applications.digits_plan import HERE as DIGITS
from simulator.applications.digits_tcgen05 import TMEM_PLANS
from simulator.arithmetic.product import product
from simulator.cli.main import main as tcsim
from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "traces" / "digits"))

import classify
import make_tcgen05

from tests.support.cases import alike, over

Words = NDArray[np.uint32]
Reals = NDArray[np.float64]

EVERY = over("name", TMEM_PLANS)
PTXAS = shutil.which("ptxas")
# Name of the trace: networks, element type, K of an instruction, images
FACTS = {
    "f16_tcgen05": (("2of4",), "f16", 32, 384),
    "f16_tcgen05_m64": (("2of4",), "f16", 32, 192),
    "f16_tcgen05_m64_lane16": (("2of4",), "f16", 32, 192),
    "f16_tcgen05_m64_both": (("2of4",), "f16", 32, 384),
    "s8_tcgen05": (("2of4",), "s8", 64, 384),
    "e4m3_tcgen05": (("2of4",), "e4m3", 64, 384),
    "mxf4nvf4_tcgen05": (("4of8",), "e2m1", 128, 384),
    "f16_tcgen05_pair": (("2of4", "1of2"), "f16", 32, 384),
}


@cache
def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(DIGITS / f"{name}.npz") as file:
        return dict(file)


@cache
def simulated(name: str) -> simulator.Report:
    return simulator.run(f"digits/{name}", "b200", compare=0)


# ---- the quantised layer, worked out again
# ------------------------------------------------------------------------------------------------------


def float_table(exponent_bits: int, fraction_bits: int, bias: int, count: int) -> Reals:
    """Values of the positive patterns 0 .. count - 1 of a small float."""
    found = []
    for pattern in range(count):
        exponent, fraction = pattern >> fraction_bits, pattern & ((1 << fraction_bits) - 1)
        significand = fraction + (1 << fraction_bits if exponent else 0)
        found.append(significand * 2.0 ** (max(exponent, 1) - bias - fraction_bits))
    assert exponent_bits + fraction_bits <= 7
    return np.array(found)


E4M3 = float_table(4, 3, 7, 127)  # the 128th is a NaN
E2M1 = float_table(2, 1, 1, 8)


def nearest(x: Reals, table: Reals) -> NDArray[np.int64]:
    """Index of the nearest value, the even one of two; those above the last get the last."""
    x = np.minimum(np.abs(x), table[-1])
    above = np.clip(np.searchsorted(table, x), 1, len(table) - 1)
    low, high = x - table[above - 1], table[above] - x
    return np.where((low < high) | ((low == high) & ((above - 1) % 2 == 0)), above - 1, above)


def signed(x: Reals, table: Reals, sign: int) -> Words:
    return (nearest(x, table) | np.where(np.signbit(x), sign, 0)).astype(np.uint32)


@dataclass
class Quantised:
    """One CTA's layer: patterns of dense W [128, 128], of X [images, 128], of C [128]; which elements are stored; scale
    factors; their values."""

    w: Words
    x: Words
    c: Words
    mask: NDArray[np.bool_]
    exact: Reals
    scale_a: Words | None = None
    scale_b: Words | None = None


@cache
def quantised(name: str, cta: int) -> Quantised:
    networks, kind, _, count = FACTS[name]
    weights, images = arrays("weights"), arrays("images")
    network = networks[cta]
    end = "dense" if network == "4of8" else network
    w, bias = weights[f"w2_{end}"].astype(np.float64), weights[f"b2_{end}"].astype(np.float64)
    x = images["images"][:count].astype(np.float64) @ weights["w1"].astype(np.float64).T + weights["b1"].astype(
        np.float64
    )
    x = np.maximum(x, 0).astype(np.float32).astype(np.float64)
    top = float(weights["activation_max"])
    if kind == "f16":
        patterns = [v.astype(np.float16).view(np.uint16).astype(np.uint32) for v in (w, x)]
        values = [v.astype(np.float16).astype(np.float64) for v in (w, x)]
        return Quantised(*patterns, c_bits(bias), weights[f"mask_{network}"], values[0] @ values[1].T + bias[:, None])
    if kind in ("s8", "e4m3"):
        limit = 127 if kind == "s8" else 448
        w_scale = (np.abs(w).max(axis=1) / limit).astype(np.float32).astype(np.float64)
        x_scale = float(np.float32(weights["activation_max"] / np.float64(limit)))
        scaled = [np.clip(np.float32(v), -limit, limit).astype(np.float64) for v in (w / w_scale[:, None], x / x_scale)]
        c = bias / (w_scale * x_scale)
        if kind == "s8":
            values, c = [np.rint(v) for v in scaled], np.rint(c)
            patterns = [v.astype(np.int64).astype(np.uint32) & 0xFF for v in values]
            bits = c.astype(np.int64).astype(np.uint32)
        else:
            patterns = [signed(v, E4M3, 0x80) for v in scaled]
            values = [np.where(p & 0x80, -E4M3[p & 0x7F], E4M3[p & 0x7F]) for p in patterns]
            bits = c_bits(c)
        return Quantised(*patterns, bits, weights[f"mask_{network}"], values[0] @ values[1].T + c[:, None])
    mask = np.zeros((128, 128), np.bool_)
    for row in range(128):
        for chunk in range(16):
            sums = [w[row, 8 * chunk + 2 * i] ** 2 + w[row, 8 * chunk + 2 * i + 1] ** 2 for i in range(4)]
            for i in sorted(range(4), key=lambda i: (-sums[i], i))[:2]:
                mask[row, 8 * chunk + 2 * i : 8 * chunk + 2 * i + 2] = True
    w = w * mask
    units = float(np.float32(np.abs(w).max() / 2688)), float(np.float32(top / 2688))
    patterns, factors, values = [], [], []
    for matrix, unit in zip((w, x), units, strict=True):
        blocks = matrix.reshape(len(matrix), 4, 32) / unit
        factor = nearest(np.abs(blocks).max(axis=2) / 6, E4M3)
        each = E4M3[factor][..., None]
        pattern = signed(
            np.divide(blocks, each, out=np.zeros_like(blocks), where=each > 0).astype(np.float32).astype(np.float64),
            E2M1,
            8,
        )
        patterns.append(pattern.reshape(matrix.shape))
        factors.append(factor.astype(np.uint32))
        values.append((np.where(pattern & 8, -E2M1[pattern & 7], E2M1[pattern & 7]) * each).reshape(matrix.shape))
    c = bias / (units[0] * units[1])
    return Quantised(*patterns, c_bits(c), mask, values[0] @ values[1].T + c.astype(np.float32)[:, None], *factors)


def c_bits(c: Reals) -> Words:
    return c.astype(np.float32).view(np.uint32)


@cache
def compressed(name: str, cta: int) -> tuple[Words, Words]:
    """Stored elements [128, 64] and codes [128, chunks], element by element."""
    layer, kind = quantised(name, cta), FACTS[name][1]
    chunk, unit = (8, 2) if kind == "e2m1" else (4, 1)
    stored, codes = np.zeros((128, 64), np.uint32), np.zeros((128, 128 // chunk), np.uint32)
    for row in range(128):
        for q in range(128 // chunk):
            columns = np.flatnonzero(layer.mask[row, q * chunk : (q + 1) * chunk])
            assert len(columns) == chunk // 2
            stored[row, q * chunk // 2 : (q + 1) * chunk // 2] = layer.w[row, q * chunk + columns]
            codes[row, q] = columns[0] // unit | columns[-1] // unit << 2
    return stored, codes


# ---- shared memory ---------------------------------------------------------------------------------------------------


def tile_byte(row: int, byte: int, rows: int, width: int) -> int:
    """Byte of a K-major tile whose swizzle rows have `width` bytes: 8 rows a group, groups along the rows, then along
    K; chunks of 16 bytes XORed.

    PTX ISA 9.0, 9.7.16.3 (canonical layouts): Swizzle<3|2|1, 4, 3> on the address for 128, 64, 32 bytes.
    """
    address = byte // width * rows * width + row // 8 * 8 * width + row % 8 * width + byte % width
    mask = width // 16 - 1
    return address ^ (address >> 7 & mask) << 4


def tile_matrix(data: NDArray[np.uint8], rows: int, row_bytes: int) -> NDArray[np.uint8]:
    """Bytes uint8 [rows, row_bytes] of a tile."""
    width = min(row_bytes, 128)
    where = np.array([[tile_byte(row, byte, rows, width) for byte in range(row_bytes)] for row in range(rows)])
    return data.ravel()[where]


def elements(rows: NDArray[np.uint8], kind: str) -> Words:
    """Bytes of rows -> patterns: 16 bits little endian, 8 bits, or two of 4 bits in a byte, the low half first."""
    if kind == "f16":
        return np.ascontiguousarray(rows).view("<u2").astype(np.uint32)
    if kind != "e2m1":
        return rows.astype(np.uint32)
    return np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1).astype(np.uint32)


ROW_BYTES = {"f16": 256, "s8": 128, "e4m3": 128, "e2m1": 64}  # of X; of stored W half


def ends(name: str) -> list[str]:
    return ["0", "1"] if len(FACTS[name][0]) > 1 else [""]


@EVERY
def test_tiles_hold_the_quantised_layer(name: str) -> None:
    _, kind, _, count = FACTS[name]
    data = arrays(name)
    share = 192 // len(ends(name))
    for cta, end in enumerate(ends(name)):
        stored, _ = compressed(name, cta)
        np.testing.assert_array_equal(elements(tile_matrix(data[f"w{end}"], 128, ROW_BYTES[kind] // 2), kind), stored)
        x = quantised(name, cta).x
        for i, tile in enumerate(data[f"x{end}"].reshape(count // 192, -1)):
            first = 192 * i + share * cta
            np.testing.assert_array_equal(
                elements(tile_matrix(tile, share, ROW_BYTES[kind]), kind), x[first : first + share]
            )
        bias = data[f"bias{end}"].view(np.uint32)
        np.testing.assert_array_equal(bias, quantised(name, cta).c)


@EVERY
def test_metadata_images_hold_the_codes(name: str) -> None:
    """Lane and bit of every code, as PTX's figures and CUTLASS's atoms have them; images are lanes x 16 bytes."""
    _, kind, _, _ = FACTS[name]
    lanes = {"f16_tcgen05_m64": [0, 0], "f16_tcgen05_m64_lane16": [16, 16], "f16_tcgen05_m64_both": [0, 16]}.get(name)
    for cta, end in enumerate(ends(name)):
        _, codes = compressed(name, cta)
        cells = arrays(name)[f"e{end}"].view("<u4").reshape(-1, 128, 4)
        seen = np.zeros_like(cells)
        for row in range(128):
            image = row // 64 if lanes and len(cells) > 1 else 0
            local = row % 64 if lanes else row
            first = lanes[row // 64] + 32 * (local // 16) if lanes else 16 * (local // 16)
            for q in range(codes.shape[1]):
                if kind == "f16":
                    lane, column, bit = (
                        first + local % 8 + 8 * (q // 4 % 2),
                        q // 8,
                        16 * (local // 8 % 2) + 4 * (q % 4),
                    )
                else:
                    lane, column, bit = first + local % 16, q // 8, 4 * (q % 8)
                assert int(cells[image, lane, column]) >> bit & 15 == codes[row, q]
                seen[image, lane, column] |= np.uint32(15 << bit)
        assert not (cells & ~seen).any()


def test_scale_factor_images() -> None:
    data, layer = arrays("mxf4nvf4_tcgen05"), quantised("mxf4nvf4_tcgen05", 0)
    assert layer.scale_a is not None
    assert layer.scale_b is not None
    a, b = data["scale_a"].reshape(512), data["scale_b"].reshape(2, 1024)
    for j in range(4):
        for row in range(128):
            assert a[16 * (row % 32) + 4 * (row // 32) + j] == layer.scale_a[row, j]
        for image in range(384):
            n = image % 192
            assert (
                b[image // 192, 512 * (n // 128) + 16 * (n % 32) + 4 * (n % 128 // 32) + j] == layer.scale_b[image, j]
            )
    assert layer.scale_a.min() > 0


# ---- the result ------------------------------------------------------------------------------------------------------


def chained(name: str, cta: int) -> Words:
    """D, uint32 [128, images]: one product after the other over K, the bias first."""
    _, kind, k, count = FACTS[name]
    layer = quantised(name, cta)
    stored, codes = compressed(name, cta)
    d = np.repeat(layer.c[:, None], count, axis=1)[None]
    d_type = "s32" if kind == "s8" else "f32"
    element = PACKED_E2M1 if kind == "e2m1" else kind
    chunks = k // (8 if kind == "e2m1" else 4)
    scales = {}
    if kind == "e2m1":
        assert layer.scale_a is not None
        assert layer.scale_b is not None
        scales = {"scale_a": layer.scale_a[None], "scale_b": layer.scale_b.T[None], "scale_type": "ue4m3"}
    for step in range(128 // k):
        a, b = stored[None, :, step * k // 2 : (step + 1) * k // 2], layer.x.T[None, step * k : (step + 1) * k]
        e = codes[None, :, step * chunks : (step + 1) * chunks]
        operands = (np.ascontiguousarray(each) for each in (a, b, d))
        how = {"family": "tcgen05", "target": "sm_100a", "a_type": element, "b_type": element, "d_type": d_type}
        d = product(*operands, codes=np.ascontiguousarray(e), **how, **scales)
    return d[0]


def brought_home(name: str, stored: Words) -> Words:
    """The registers of `tcgen05.ld`, [warp, register, lane], as D, [128, images]; PTX ISA 9.0, 9.7.16.8 and
    9.7.16.10.5."""
    _, _, _, count = FACTS[name]
    d = np.full((128, count), 0xDEADBEEF, np.uint32)
    for warp in range(8):
        quarter, half = warp % 4, warp // 4
        for register in range(stored.shape[1]):
            for lane in range(32):
                column = 192 * half + register
                if name in (
                    "f16_tcgen05_m64",
                    "f16_tcgen05_m64_lane16",
                ):  # .16x256b.x8, rows 0-63 and 64-127 side by side
                    part, r = divmod(register, 32)
                    row = 64 * half + 16 * quarter + lane // 4 + 8 * (r // 2 % 2)
                    column = 64 * part + 8 * (r // 4) + 2 * (lane % 4) + r % 2
                elif name == "f16_tcgen05_m64_both":
                    row = 16 * quarter + lane % 16 + 64 * (lane // 16)
                else:
                    row = 32 * quarter + lane
                d[row, column] = stored[warp, register, lane]
    return d


@EVERY
def test_every_bit_of_the_layer(name: str) -> None:
    stored = simulated(name).arrays[f"d_{name}"]
    for cta in range(len(FACTS[name][0])):
        mine = stored[cta] if len(FACTS[name][0]) > 1 else stored
        np.testing.assert_array_equal(brought_home(name, mine), chained(name, cta))


@EVERY
def test_the_layer_against_float64(name: str) -> None:
    """Each instruction cuts its sum at about 2^-24 of its largest term; integers are exact."""
    stored = simulated(name).arrays[f"d_{name}"]
    for cta in range(len(FACTS[name][0])):
        found = brought_home(name, stored[cta] if len(FACTS[name][0]) > 1 else stored)
        exact = quantised(name, cta).exact
        if FACTS[name][1] == "s8":
            np.testing.assert_array_equal(found.view(np.int32), exact)
            continue
        error = np.abs(found.view(np.float32) - exact).max() / np.abs(exact).max()
        assert 0 < error < 2e-6


@EVERY
def test_nothing_undefined_happens(name: str) -> None:
    report = simulated(name)
    assert report.undefined == {}
    assert report.warnings == []
    assert report.target == "sm_100a"


@EVERY
def test_it_is_classified_as_numpy_does(name: str) -> None:
    facts = classify.finish(simulated(name).arrays, name)
    assert facts["images"] == FACTS[name][3]
    assert facts["accuracy"] == facts["accuracy_numpy"] >= 0.97
    assert facts["different"] == 0
    assert facts["largest_difference"] < 1e-5
    assert tuple(facts["networks"]) == FACTS[name][0]
    assert min(facts["networks"].values()) >= 0.97
    rows = 128 * len(FACTS[name][0])
    assert facts["layer"].shape == (rows, FACTS[name][3])


def test_the_m64_traces_give_the_bits_of_the_m128_one() -> None:
    whole = classify.finish(simulated("f16_tcgen05").arrays, "f16_tcgen05")["layer"]
    for name in ("f16_tcgen05_m64", "f16_tcgen05_m64_lane16", "f16_tcgen05_m64_both", "f16_tcgen05_pair"):
        layer = classify.finish(simulated(name).arrays, name)["layer"]
        np.testing.assert_array_equal(layer[:128], whole[:, : layer.shape[1]])


def test_the_program_prints_both_networks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "f16_tcgen05_pair"
    np.savez(tmp_path / "out.npz", **simulated(name).arrays)
    assert classify.main([str(tmp_path / "out.npz")]) == 0
    printed = capsys.readouterr().out
    assert f"{name}: 384 test images" in printed
    assert "2of4 alone" in printed
    assert "1of2 alone" in printed
    np.savez(tmp_path / "bad.npz", **{f"d_{name}": simulated(name).arrays[f"d_{name}"][0]})
    assert classify.main([str(tmp_path / "bad.npz")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_pruning_in_pairs_costs_little_accuracy() -> None:
    """The number in the README: the dense network in float64 with its hidden layer pruned 4:8 in pairs, nothing
    quantised."""
    weights, images, layer = arrays("weights"), arrays("images"), quantised("mxf4nvf4_tcgen05", 0)
    values = images["images"].astype(np.float64)
    for end in ("1", "2_dense", "3_dense"):
        w = weights[f"w{end}"].astype(np.float64) * (layer.mask if end == "2_dense" else 1)
        values = np.maximum(values, 0) @ w.T + weights[f"b{end}"].astype(np.float64)
    assert int(np.sum(values.argmax(axis=1) == images["labels"])) == 374


# ---- the files -------------------------------------------------------------------------------------------------------


def test_the_checked_in_files_are_what_the_program_writes(tmp_path: Path) -> None:
    make_tcgen05.write(tmp_path)
    for name in TMEM_PLANS:
        assert (tmp_path / f"{name}.trace").read_bytes() == (DIGITS / f"{name}.trace").read_bytes()
        with np.load(tmp_path / f"{name}.npz") as file:
            made = dict(file)
        assert made.keys() == arrays(name).keys()
        for key, array in made.items():
            assert array.dtype == arrays(name)[key].dtype, key
            np.testing.assert_array_equal(array, arrays(name)[key], err_msg=key)


def test_there_is_a_trace_for_everything_and_it_is_small() -> None:
    assert set(TMEM_PLANS) == set(FACTS) == {path.stem for path in DIGITS.glob("*_tcgen05*.trace")}
    assert sum(path.stat().st_size for path in DIGITS.glob("*_tcgen05*")) < 1_500_000


def test_wrong_metadata_is_noticed() -> None:
    plan = TMEM_PLANS["f16_tcgen05"]
    weights, images = arrays("weights"), arrays("images")
    data = make_tcgen05.operands(plan, weights, images)
    make_tcgen05.check(plan, data, weights, images)
    data["e"] = data["e"].copy()
    data["e"][0, 5, 3] ^= 0x44
    with pytest.raises(ValueError, match="W of CTA 0"):
        make_tcgen05.check(plan, data, weights, images)


def entry(name: str, warp: str) -> str:
    """The program of some warps as a kernel for ptxas."""
    text = (DIGITS / f"{name}.trace").read_text()
    blocks = re.findall(rf"\.warp {warp} \{{\n(.*?)\n *\}}\n", text, re.DOTALL)
    assert blocks
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n"
    registers = ".reg .b32 %r<256>;\n.reg .b64 %rd<8>;\n.reg .b16 %rs<2>;\n.reg .pred %p<2>;\n"
    return head + "".join(
        f".visible .entry layer{i}()\n{{\n{registers}{block}\nret;\n}}\n" for i, block in enumerate(blocks)
    )


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
@over("warp", ["0", "1-7"])
@EVERY
def test_ptxas_takes_the_instructions(name: str, warp: str, tmp_path: Path) -> None:
    source = tmp_path / "layer.ptx"
    source.write_text(entry(name, warp))
    assert PTXAS is not None
    result = subprocess.run(
        [PTXAS, "-arch=sm_100a", "-o", str(tmp_path / "layer.cubin"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "sm_100a" in result.stderr and "not defined for option" in result.stderr:
        pytest.skip("this ptxas is older than sm_100a")
    assert result.returncode == 0, result.stderr


@over("name", TMEM_PLANS, distinct=alike)
def test_time_changes_no_value(name: str) -> None:
    """A run without a config has no time; one with it says that the rate of the sparse form is assumed."""
    report = simulator.run(f"digits/{name}", None, compare=0)
    np.testing.assert_array_equal(report.arrays[f"d_{name}"], simulated(name).arrays[f"d_{name}"])
    assert simulated(name).cycles > 0
    assert any(line.startswith("[tcgen05") and "sparse" in line for line in simulated(name).assumed)


CHECK = pytest.mark.skipif(importlib.util.find_spec("simulator.cli.check") is None, reason="there is no tcsim check")


@CHECK
@over("ptx", ["9.0", "9.4"], distinct=alike)
@EVERY
def test_check_finds_nothing(name: str, ptx: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = tcsim(["check", "--ptx", ptx, str(DIGITS / f"{name}.trace")])
    assert code == 0, capsys.readouterr().out


@CHECK
@over(
    "what",
    ["mbarrier.try_wait", "tcgen05.wait::st", "tcgen05.wait::ld", "tcgen05.dealloc", "tcgen05.commit", "bar.sync"],
)
@over("name", ["f16_tcgen05", "mxf4nvf4_tcgen05"], distinct=alike)
def test_check_finds_what_is_left_out(name: str, what: str, tmp_path: Path) -> None:
    lines = (DIGITS / f"{name}.trace").read_text().splitlines()
    (tmp_path / "less.trace").write_text("\n".join(line for line in lines if not re.match(rf" *(@%p0 )?{what}", line)))
    shutil.copy(DIGITS / f"{name}.npz", tmp_path)
    assert tcsim(["check", str(tmp_path / "less.trace")]) == 1


@EVERY
def test_the_plan_is_the_one_that_is_documented(name: str) -> None:
    """Layout, alignment, K and images; B in a 32B swizzle is not documented for sparse A."""
    plan = TMEM_PLANS[name]
    letters = {
        "f16_tcgen05_pair": "A",
        **dict.fromkeys(("f16_tcgen05_m64", "f16_tcgen05_m64_lane16", "f16_tcgen05_m64_both"), "F"),
    }
    assert plan.layout.name == letters.get(name, "D")
    assert (plan.k, plan.images) == FACTS[name][2:]
    assert plan.x_tiles[0].swizzle in ("128B", "64B")
    assert plan.shared_bytes <= 227 * 1024
    text = (DIGITS / f"{name}.trace").read_text()
    assert text.count(plan.opcode) == 128 // plan.k * 2 * len(plan.blocks(0))
    assert max(int(n) for n in re.findall(r"%r(\d+)", text)) <= 254
