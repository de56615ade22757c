"""Products as cuSPARSELt computes them: recordings, refusals, descriptors, plans, time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from isa.errors import IsaError
from isa.targets import parse_target
from isa.types import SCALE_TYPES
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.product import product as one_instruction
from simulator.studies.sparselt.accumulate import Chain, accumulate, tf32
from simulator.studies.sparselt.compression import split
from simulator.studies.sparselt.epilogue import Epilogue, finish, gelu, to_type
from simulator.studies.sparselt.matrices import as_patterns, to_values
from simulator.studies.sparselt.multiply import matmul
from simulator.studies.sparselt.plan import search
from simulator.studies.sparselt.pruning import prune
from simulator.studies.sparselt.scales import Scales
from simulator.studies.sparselt.tanh import tanh_approx
from simulator.studies.sparselt.vocabulary import ACCEPTED
from tests.golden import compare_sparselt_matmul as golden
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]
RNG = np.random.default_rng(15)


def operands(m: int = 32, n: int = 32, k: int = 64, type: str = "f16") -> tuple[np.ndarray, np.ndarray]:
    """A pruned, and B, as patterns."""
    a: np.ndarray
    b: np.ndarray
    a, b = (RNG.standard_normal((rows, k)) * (8 if type == "s8" else 1) for rows in (m, n))
    a, b = (x.astype(np.float16 if type == "f16" else np.float32) for x in (a, b))
    return prune(a, type, "strip"), prune(b, type, "strip") if type == "s8" else b


def test_recorded_products_accepted_and_refused_combinations(capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.main([]) == 0
    printed = capsys.readouterr().out
    assert "2,925 statuses compared, 0 differ" in printed
    differences = [int(line[62:69]) for line in printed.splitlines()[1:-1]]
    assert len(differences) == 26
    assert not any(differences)


def test_a_folder_without_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.main([str(tmp_path)]) == 2
    (tmp_path / "cusparselt.npz").write_text("no")
    (tmp_path / "cusparselt.json").write_text('{"log": []}')
    assert golden.main([str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("type", ["f16", "e4m3"])
def test_a_chain_of_instructions_is_what_is_summed(type: str) -> None:
    a, b = operands(type=type, k=128)
    patterns = b.view(np.uint16) if type == "f16" else to_type(b, type).astype(np.uint8)
    chain = Chain(type, parse_target("sm_90a"))
    found = accumulate(a, patterns, chain)
    stored, codes = split(a, type)
    sums = np.zeros((1, 32, 32), np.uint32)
    for k in range(0, 128, chain.depth):
        part = slice(k // 2, (k + chain.depth) // 2)
        sums = one_instruction(
            np.ascontiguousarray(stored[None, :, part].astype(np.uint32)),
            np.ascontiguousarray(patterns[None, :, k : k + chain.depth].transpose(0, 2, 1).astype(np.uint32)),
            sums,
            family="wgmma",
            target="sm_90a",
            a_type=type,
            b_type=type,
            d_type="f32",
            codes=np.ascontiguousarray(codes[None, :, k // 4 : (k + chain.depth) // 4]),
        )
    assert np.array_equal(found.view(np.uint32), sums[0])


def test_slices_of_k_change_bits_and_integers_do_not() -> None:
    a, b = operands(k=512)
    whole, four = (matmul(a, b, type="f16", d_type=None, split_k=s) for s in (1, 4))
    assert whole.exact is not None
    assert np.array_equal(whole.exact, four.exact if four.exact is not None else 0)
    halves = [
        accumulate(a[:, i : i + 128], b.view(np.uint16)[:, i : i + 128], Chain("f16", parse_target("sm_90a")))
        for i in range(0, 512, 128)
    ]
    total = halves[0] + halves[1] + halves[2] + halves[3]
    assert np.array_equal(four.d, to_type(total.astype(np.float32), "f16"))
    a, b = operands(k=512, type="s8")
    assert np.array_equal(*(matmul(a, b, type="s8", d_type="s32", c_type="s32", split_k=s).d for s in (1, 4)))


@pytest.mark.parametrize("shape", [(1, 1, 4), (33, 7, 100), (5, 70, 36)])
def test_any_shape_without_the_refusals(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = operands(m, n, k)
    found = matmul(a, b, type="f16", strict=False)
    assert found.d.shape == (m, n)
    wanted = a.view(np.float16).astype(np.float64) @ b.astype(np.float64).T
    assert np.allclose(found.values, wanted, rtol=1e-2, atol=1e-2)
    dense = matmul(RNG.standard_normal((m, k)).astype(np.float16), b, type="f16", sparse=None, strict=False)
    assert dense.summary()["right"] > 0.9


def test_chips_of_all_generations_sum_as_their_instructions_do() -> None:
    a, b = operands(k=512)
    found = {t: matmul(a, b, type="f16", target=t) for t in ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")}
    assert all(x.summary()["right"] > 0.98 for x in found.values())
    fp8 = {t: matmul(*operands(k=512, type="e4m3"), type="e4m3", c_type="f32", target=t) for t in ("sm_90a", "sm_100a")}
    assert fp8["sm_100a"].summary()["mean_ulp"] < fp8["sm_90a"].summary()["mean_ulp"]


def test_nan_is_reported_and_left_out_of_the_share_that_is_right() -> None:
    a, b = operands()
    b[3, 5] = np.nan
    found = matmul(a, b, type="f16")
    assert "B: 1 of 2,048 elements are NaN or infinite" in found.notes
    summary, elements = found.summary(), found.to_frame()
    assert summary["nan"] == np.count_nonzero(a[:, 5])  # what is not stored is not multiplied
    assert set(elements.column[elements.exact.isna()]) == {3}
    assert summary["right"] == (elements.ulp[elements.exact.notna()] == 0).mean()
    assert matmul(a, b.astype(np.float64), type="f16").d.dtype == np.uint16


def test_numbers_that_are_rounded_are_said_and_signed_views_are_patterns() -> None:
    a, b = operands()
    rounded = matmul(a, b.astype(np.float32) * 1.0001, type="f16")
    assert any("were rounded to f16" in note for note in rounded.notes)
    assert np.array_equal(matmul(a.view(np.int16), b.view(np.int16), type="f16").d, matmul(a, b, type="f16").d)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "f64"}, "no product of f64"),
        ({"type": "s4"}, "no product of s4"),
        ({"type": "e2m1"}, "status 7"),
        ({"c_type": "f32"}, "status 10"),
        ({"compute": "64f"}, "not a compute type"),
        ({"activation": "gelu"}, "GELU of f16 into f16"),
        ({"activation": "tanh"}, "activation='tanh'"),
        ({"alpha": np.ones(32)}, "status 10"),
        ({"beta": 1.0}, "beta without C"),
        ({"c": np.zeros((32, 31), np.float16), "beta": 1.0}, "C of 32 x 31"),
        ({"bias": np.zeros(31, np.float16)}, "a bias of shape"),
        ({"split_k": 0}, "split_k = 0"),
        ({"split_k": 99}, "slices"),
        ({"sparse": "c"}, "sparse='c'"),
        ({"a": np.zeros((32, 60), np.float16), "b": np.zeros((32, 60), np.float16)}, "32 x 60 f16"),
        ({"a": np.zeros((30, 64), np.float16)}, "30 x 64 f16"),
        ({"a": np.ones((32, 64), np.float16)}, "A is not pruned"),
        ({"b": np.zeros((32, 32), np.float16)}, "B of 32 x 32"),
        ({"a": np.zeros(64, np.float16)}, "A has shape"),
        ({"b": np.zeros((32, 64), np.complex64)}, "complex64"),
        ({"scales": Scales(2.0, 1.0), "target": "sm_100a"}, "no narrow type"),
    ],
)
def test_what_the_library_refuses_is_one_clear_line(change: dict[str, object], words: str) -> None:
    a, b = operands()
    options: dict[str, object] = {"a": a, "b": b, "type": "f16"} | change
    with pytest.raises(IsaError) as caught:
        matmul(**options)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scales_of_an_h100_are_taken_and_not_applied() -> None:
    a, b = operands(type="e4m3")
    plain, scaled = (matmul(a, b, type="e4m3", scales=s) for s in (Scales(), Scales(0.5, 3.0)))
    assert np.array_equal(plain.d, scaled.d)
    assert scaled.notes[-1].startswith("scales: taken and not applied")
    later = matmul(a, b, type="e4m3", c_type="f32", scales=Scales(0.5, 1.0), target="sm_100a")
    assert np.array_equal(later.values, matmul(a, b, type="e4m3", c_type="f32", target="sm_100a").values / 2)


@pytest.mark.parametrize(("type", "block"), [("e4m3", 64), ("e2m1", 32)])
@pytest.mark.parametrize("sparse", ["a", "b", None])
def test_block_scales_on_blackwell(type: str, block: int, sparse: str | None) -> None:
    m, n, k = 32, 32, 256
    a: np.ndarray
    b: np.ndarray
    a, b = (RNG.standard_normal((rows, k)) for rows in (m, n))
    a, b = (prune(x, type, "strip") if sparse == name else as_patterns(x, type)[0] for x, name in ((a, "a"), (b, "b")))
    one = "ue8m0" if type == "e4m3" else "ue4m3"
    of_a, of_b = (
        RNG.integers(*((124, 131) if one == "ue8m0" else (0x30, 0x48)), (r, k // block)).astype(np.uint8)
        for r in (m, n)
    )
    factors = [np.repeat(to_float64(x.astype(np.uint32), SCALE_TYPES[one]), block, axis=1) for x in (of_a, of_b)]
    options = {"type": type, "c_type": "f32", "target": "sm_100a", "sparse": sparse, "strict": False}
    found = matmul(a, b, scales=Scales(of_a, of_b), **options)
    wanted = (to_values(a, type) * factors[0]) @ (to_values(b, type) * factors[1]).T
    assert np.allclose(found.values, wanted, rtol=1e-5, atol=1e-5)
    assert found.exact is not None
    assert np.array_equal(found.exact, wanted.astype(np.float32).view(np.uint32))
    with pytest.raises(IsaError, match=r"block scales on sm_90a|multiplies e2m1 on Blackwell"):
        matmul(a, b, scales=Scales(of_a, of_b), **(options | {"target": "sm_90a"}))
    with pytest.raises(IsaError, match=r"scales [ab] of"):
        matmul(a, b, scales=Scales(of_a[:, :1], of_b), **options)


def test_scales_of_d_on_blackwell() -> None:
    a, b = operands(32, 96, 64, type="e4m3")
    given = {"type": "e4m3", "c_type": "bf16", "target": "sm_100a"}
    plain = matmul(a, b, **given, d_type="bf16")
    half = matmul(a, b, **given, d_type="e4m3", scales=Scales(d=0.5))
    assert np.allclose(half.values * 2, plain.values, rtol=0.08, atol=0.01)
    own = matmul(a, b, **given, d_type="e4m3", scales=Scales(d_out=True))
    assert own.d_scale is not None
    assert own.d_scale.shape == (32, 2)
    factors = np.repeat(2.0 ** (own.d_scale.astype(int) - 127), 64, axis=1)[:, :96]
    assert np.allclose(own.values * factors, plain.values, rtol=0.08, atol=0.05)
    assert np.abs(own.values).reshape(32, -1)[:, :64].max(axis=1).min() >= 224
    with pytest.raises(IsaError, match="D-out scales of bf16"):
        matmul(a, b, **given, d_type="bf16", scales=Scales(d_out=True))
    packed = matmul(
        RNG.standard_normal((32, 64)),
        RNG.standard_normal((32, 64)),
        type="e2m1",
        d_type="e2m1",
        sparse=None,
        target="sm_100a",
        scales=Scales(d_out=True),
    )
    assert packed.d.max() < 16
    assert packed.summary()["right"] > 0.9


def test_a_sparse_b_is_the_transposed_product_and_its_bias_runs_along_columns() -> None:
    a, b = operands(32, 48, 64)
    bias = RNG.standard_normal(32).astype(np.float16)
    one = matmul(a, b, type="f16", bias=bias)
    other = matmul(b, a, type="f16", bias=bias, sparse="b")
    assert np.array_equal(other.d, one.d.T)


def test_exact_results_of_an_epilogue_are_rounded_once() -> None:
    a, b = operands(16, 16, 32)
    c = RNG.standard_normal((16, 16)).astype(np.float16)
    bias = RNG.standard_normal(16).astype(np.float16)
    found = matmul(a, b, c, type="f16", alpha=0.75, beta=-1.5, bias=bias, activation="relu")
    sums = a.view(np.float16).astype(np.float64) @ b.astype(np.float64).T
    wanted = np.maximum(0.75 * sums - 1.5 * c.astype(np.float64) + bias[:, None].astype(np.float64), 0).astype(
        np.float16
    )
    assert found.exact is not None
    assert np.array_equal(found.exact.view(np.float16), wanted)
    frame = found.to_frame()
    assert list(frame.columns) == ["batch", "row", "column", "d", "exact", "ulp"]
    assert len(frame) == 256


def test_conversions_of_d() -> None:
    x = np.array([1e9, -1e9, 127.5, -128.5, 2.5, np.nan, np.inf], np.float32)
    assert to_type(x, "s8").astype(np.uint8).view(np.int8).tolist() == [127, -128, 127, -128, 2, 0, 127]
    assert to_type(x, "f16").tolist() == [0x7C00, 0xFC00, 0x57F8, 0xD804, 0x4100, 0x7FFF, 0x7C00]
    assert to_type(x, "e4m3").tolist() == [0x7E, 0xFE, 0x70, 0xF0, 0x42, 0x7F, 0x7E]
    one = np.ones(1, np.float32)
    relu = Epilogue(one, 0 * one, activation="relu", upper=2.0, threshold=0.5)
    given = np.array([[-1.0, 0.5, 0.75, 3.0, np.nan]], np.float32)
    assert finish(given, relu, "f32").tolist() == [[0x80000000, 0, 0x3F400000, 0x40000000, 0x7FFFFFFF]]
    half = Epilogue(one, 0 * one, half=True)
    assert finish(np.array([[-np.inf, -1.0]], np.float32), half, "f16").tolist() == [[0, 0xBC00]]


def test_tanh_of_the_chip() -> None:
    x = np.array([-3.3, -0.1, -np.inf, np.nan, -0.0, 1e-40, -20], np.float32)
    found = tanh_approx(x)
    assert found.view(np.uint32)[[0, 2, 4, 5, 6]].tolist() == [0xBF7F4DED, 0xBF800000, 0x80000000, 71362, 0xBF800000]
    assert np.isnan(found[3])
    line = np.linspace(-9, 9, 20001).astype(np.float32)
    assert np.abs(tanh_approx(line) - np.tanh(line.astype(np.float64))).max() < 2e-5
    assert np.array_equal(tanh_approx(-line), -tanh_approx(line))
    assert gelu(np.array([-20.0], np.float32))[0] == 0


def test_tf32_operands() -> None:
    given = np.array([0x3F801000, 0x3F803000, 0x3F800000, 0x3F802000, 0x7F800000, 0x7FC01234], np.uint32)
    assert [hex(x) for x in tf32(given, compressed=False)][:2] == ["0x3f800000", "0x3f804000"]
    assert [hex(x) for x in tf32(given, compressed=True)][:4] == [
        "0x3f802000",
        "0x3f804000",
        "0x3f800000",
        "0x3f804000",
    ]
    assert tf32(given, compressed=True)[4:].tolist() == given[4:].tolist()


def test_the_command_multiplies_matrices(tcsim: Tcsim, tmp_path: Path) -> None:
    weight, x = (RNG.standard_normal((rows, 128)).astype(np.float16) for rows in (64, 40))
    bias = RNG.standard_normal(64).astype(np.float16)
    for name, array in (("W", weight), ("x", x), ("b", bias)):
        np.save(tmp_path / f"{name}.npy", array)
    given = ["--a", tmp_path / "W.npy", "--b", tmp_path / "x.npy", "--bias", tmp_path / "b.npy"]
    code, out, err = tcsim(
        "gemm", *given, "--prune", "strip", "--relu", "--format", "json", "--output", tmp_path / "y.npz"
    )
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["cycles"] > 0
    wanted = matmul(prune(weight, "f16", "strip"), x, type="f16", bias=bias, activation="relu", strict=False)
    with np.load(tmp_path / "y.npz") as written:
        assert np.array_equal(written["d"], wanted.d)
    assert answer["right"] == wanted.summary()["right"]
    assert "values: 2,560 elements" in tcsim("gemm", *given, "--dense")[1]
    for wrong in (
        (*given,),
        (*given[2:],),
        (*given, "--prune", "no"),
        (*given, "--dense", "--config", "rtx4090", "--stages", "4"),
        (*given, "--dense", "--relu", "--gelu"),
        ("--relu",),
        (*given, "--dense", "--output", "y.txt"),
    ):
        code, out, err = tcsim("gemm", *wrong)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1


def test_the_documentation_names_every_enumerator() -> None:
    text = (ROOT / "docs" / "sparselt_matmul.md").read_text()
    named = (
        {
            "CUSPARSELT_" + word
            for word in [
                "SPARSITY_50_PERCENT",
                "MAT_NUM_BATCHES",
                "MAT_BATCH_STRIDE",
                "MATMUL_ALG_DEFAULT",
                "MATMUL_ALG_CONFIG_ID",
                "MATMUL_ALG_CONFIG_MAX_ID",
                "MATMUL_SEARCH_ITERATIONS",
                "MATMUL_SPLIT_K",
                "MATMUL_SPLIT_K_MODE",
                "MATMUL_SPLIT_K_BUFFERS",
                "SPLIT_K_MODE_ONE_KERNEL",
                "SPLIT_K_MODE_TWO_KERNELS",
                "SPLITK",
                "DATAPARALLEL",
                "STREAMK",
                "HEURISTIC",
                "PRUNE_SPMMA_TILE",
                "PRUNE_SPMMA_STRIP",
                "MATMUL_SCALE_NONE",
                "MATMUL_MATRIX_SCALE_SCALAR_32F",
                "MATMUL_MATRIX_SCALE_VEC32_UE4M3",
                "MATMUL_MATRIX_SCALE_VEC64_UE8M0",
                "INVALID_MODE",
            ]
        }
        | {
            "CUSPARSELT_MATMUL_" + word
            for word in [
                "ACTIVATION_RELU",
                "ACTIVATION_RELU_UPPERBOUND",
                "ACTIVATION_RELU_THRESHOLD",
                "ACTIVATION_GELU",
                "ACTIVATION_GELU_SCALING",
                "ALPHA_VECTOR_SCALING",
                "BETA_VECTOR_SCALING",
                "BIAS_POINTER",
                "BIAS_STRIDE",
                "SPARSE_MAT_POINTER",
                "A_SCALE_MODE",
                "B_SCALE_MODE",
                "C_SCALE_MODE",
                "D_SCALE_MODE",
                "D_OUT_SCALE_MODE",
                "A_SCALE_POINTER",
                "B_SCALE_POINTER",
                "C_SCALE_POINTER",
                "D_SCALE_POINTER",
                "D_OUT_SCALE_POINTER",
            ]
        }
        | {f"CUSPARSE_COMPUTE_{word}" for word in ("32I", "32F", "16F")}
    )
    assert not [name for name in sorted(named) if f"`{name}`" not in text]
    assert all(f"| {a} | {c} | {d} | {compute} |" in text for a, c, d, compute in ACCEPTED)


def test_it_is_reached_from_the_package() -> None:
    assert simulator.sparselt.matmul is matmul
    assert simulator.sparselt.search is search
    with pytest.raises(AttributeError):
        simulator.sparselt.nothing  # noqa: B018
