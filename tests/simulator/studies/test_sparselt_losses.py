"""Errors against the matrices as they were given: rounding, pruning, arithmetic; arrays of others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from simulator.arithmetic.deviation import Deviation, deviation
from simulator.studies.sparselt.given import type_name
from simulator.studies.sparselt.multiply import matmul
from simulator.studies.sparselt.pruning import prune
from simulator.studies.sparselt.rounding import largest_number
from simulator.studies.sparselt.summary import summarise

Tcsim = Callable[..., tuple[int, str, str]]
RNG = np.random.default_rng(9)
SMALL = RNG.standard_normal((64, 128)) * 0.1  # of s8 nearly all are 0


def relative(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.linalg.norm(x - y) / np.linalg.norm(y))


def test_a_deviation_is_what_numpy_says() -> None:
    x, y = RNG.standard_normal((2, 40))
    found = deviation(x, y)
    assert found.relative == pytest.approx(relative(x, y))
    assert found.sqnr_db == pytest.approx(-20 * np.log10(relative(x, y)))
    assert found.largest == np.abs(x - y).max()
    assert (deviation(x[:7], y[:7]) + deviation(x[7:], y[7:])).relative == pytest.approx(found.relative)
    assert deviation(x, x).sqnr_db is None
    assert deviation(x, x).relative == 0
    assert deviation(np.ones(2), np.zeros(2)).relative is None
    odd = deviation(np.array([np.inf, np.nan, 1, 2]), np.array([1, np.nan, 1, np.inf]))
    assert (odd.elements, odd.left_out, odd.broken) == (1, 3, 1)
    assert json.dumps(Deviation().to_dict())
    assert str(Deviation(0, 4, 0)).startswith("nothing to compare")


@pytest.mark.parametrize(("type", "scale"), [("f16", 1.0), ("e4m3", 1.0), ("s8", 20.0), ("f32", 1.0), ("e2m1", 2.0)])
def test_each_step_loses_what_it_loses(type: str, scale: float) -> None:
    a, b = (RNG.standard_normal((rows, 128)) * scale for rows in (64, 96))
    target = "sm_100a" if type == "e2m1" else "sm_90a"
    found = matmul(
        a,
        b,
        type=type,
        prune="strip",
        target=target,
        d_type=None if type != "s8" else "s32",
        c_type="s32" if type == "s8" else None,
    )
    losses = {name: loss for name, loss in found.losses.items() if loss is not None}
    given = a @ b.T
    assert losses["total"].relative == pytest.approx(relative(found.values, given))
    assert losses["total"].largest == pytest.approx(np.abs(found.values - given).max())
    assert set(losses) == {"rounding", "pruning", "arithmetic", "total"}
    assert losses["rounding"].relative < losses["pruning"].relative  # type: ignore[operator]
    assert found.error is not None
    assert found.error.relative is not None
    assert found.error.relative <= 1e-2


def test_a_matrix_that_rounding_made_empty_is_no_success() -> None:
    found = matmul(SMALL, np.rint(SMALL * 500), type="s8", prune="strip", c_type="s32")
    assert found.summary()["right"] == 1
    total = found.losses["total"]
    assert total is not None
    assert total.relative == pytest.approx(1, abs=0.1)
    assert any(note.startswith("warning: A: ") and "became 0 in s8" in note for note in found.notes)
    assert found.rounding["a"].zeroed > 8000
    with pytest.warns(UserWarning, match="became 0 in s8"):
        before = prune(SMALL, "s8", "strip")
    later = matmul(before, np.rint(SMALL * 500), type="s8")
    assert any("was it rounded to s8 without a scale" in note for note in later.notes)


def test_numbers_beyond_a_types_range_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="beyond the largest number of e4m3"):
        prune(SMALL * 1e5, "e4m3", "strip")
    found = matmul(prune(np.rint(SMALL), "s8", "strip"), SMALL * 1e5, type="s8")
    assert any("beyond the largest number of s8" in note for note in found.notes)
    assert not found.rounding["a"].rounded
    odd = SMALL.copy()
    odd[0, 0] = np.nan
    assert any("became numbers in s8" in note for note in matmul(odd, odd, type="s8", prune="strip").notes)


def test_largest_numbers() -> None:
    assert {name: largest_number(name) for name in ("f16", "e4m3", "e5m2", "s8", "e2m1")} == {
        "f16": 65504, "e4m3": 448, "e5m2": 57344, "s8": 128, "e2m1": 6,
    }  # fmt: skip
    assert largest_number("f32") == np.finfo(np.float32).max
    assert largest_number("bf16") == (2 - 2.0**-7) * 2.0**127


def test_what_f32_loses_to_tf32_is_said() -> None:
    a, b = SMALL.astype(np.float32), RNG.standard_normal((32, 128)).astype(np.float32)
    found = matmul(a, b, type="f32", prune="strip")
    assert any("were rounded to tf32" in note for note in found.notes)
    rounding = found.losses["rounding"]
    assert rounding is not None
    assert 1e-5 < rounding.relative < 1e-3  # type: ignore[operator]


def test_a_sparse_b_and_batches_lose_alike() -> None:
    a, b = RNG.standard_normal((64, 128)), RNG.standard_normal((2, 32, 128))
    found = matmul(b, a, type="e4m3", sparse="b", prune="strip")
    total = found.losses["total"]
    assert total is not None
    assert total.relative == pytest.approx(relative(found.values, b @ a.T))


def test_the_kept_norm_is_that_of_the_matrix_as_given() -> None:
    with pytest.warns(UserWarning, match="became 0"):
        after = prune(SMALL, "s8", "strip")
    found = summarise(SMALL, after, "s8")
    values = after.view(np.int8).astype(float)
    assert found.kept_l2 == pytest.approx(np.linalg.norm(values) / np.linalg.norm(SMALL))
    assert found.losses["total"].relative == pytest.approx(relative(values, SMALL))


def test_the_commands_say_it(tcsim: Tcsim, tmp_path: Path) -> None:
    path, b = tmp_path / "w.npz", tmp_path / "b.npz"
    np.savez(path, w=SMALL, v=SMALL * 2)
    np.savez(b, x=np.rint(SMALL * 500), y=SMALL)
    code, out, err = tcsim("gemm", "--a", path, "--b", b, "--type", "s8", "--prune", "strip")
    assert code == 2
    assert "--key with one of" in err
    given = ["gemm", "--a", path, "--key", "w", "--b", b, "--type", "s8", "--prune", "strip"]
    code, out, err = tcsim(*given)
    assert code == 2
    assert "--b-key with one of" in err
    code, out, err = tcsim(*given, "--b-key", "x")
    assert code == 0
    assert "warning: A: " in err
    assert "error against the product of the matrices as given" in out
    assert "for the rounded and pruned matrices" in out
    assert "cuSPARSELt 0.10.0" in out
    code, out, _ = tcsim(*given, "--b-key", "x", "--format", "json")
    answer = json.loads(out)
    assert answer["losses"]["total"]["relative_error"] == pytest.approx(1, abs=0.1)
    assert answer["rounding"]["a"]["zeroed"] > 8000
    assert answer["library"] == "0.10.0"
    assert tcsim("gemm", "--key", "w")[0] == 2
    code, out, err = tcsim("prune", path, "--key", "w", "--type", "s8", "--algorithm", "strip")
    assert code == 0
    assert "lost together" in out
    assert "warning: " in err


def test_arrays_of_ml_dtypes_and_names_of_types() -> None:
    ml = pytest.importorskip("ml_dtypes")
    w = RNG.standard_normal((64, 128)).astype(np.float32)
    for own, type in (
        ("bfloat16", "bf16"),
        ("float8_e4m3fn", "e4m3"),
        ("float8_e5m2", "e5m2"),
        ("float4_e2m1fn", "e2m1"),
    ):
        given = w.astype(getattr(ml, own))
        assert np.array_equal(prune(given, type, "strip"), prune(given.astype(np.float32), type, "strip"))
        assert np.array_equal(prune(given, own, "strip"), prune(given, getattr(ml, own), "strip"))
        other = matmul(prune(w, "f16", "strip"), given, type="f16")
        assert own == "bfloat16" or not any("rounded" in note for note in other.notes)
    for name in ("float16", np.float16, np.dtype("float16"), "f16"):
        assert type_name(name) == "f16"
        assert np.array_equal(prune(w, name, "strip"), prune(w, "f16", "strip"))  # type: ignore[arg-type]


def test_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of a tensor of PyTorch, of one that stands in for it."""
    torch: Any = ModuleType("torch")
    torch.int16, torch.uint8 = np.int16, np.uint8

    class Tensor:
        def __init__(self, array: np.ndarray, dtype: str) -> None:
            self.array, self.dtype = array, dtype

        def detach(self) -> Tensor:
            return self

        cpu = contiguous = detach

        def view(self, dtype: Any) -> Tensor:
            return Tensor(self.array.view(dtype), "torch.int")

        def numpy(self) -> np.ndarray:
            return self.array

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", torch)
    w = RNG.standard_normal((64, 128)).astype(np.float16)
    assert np.array_equal(prune(Tensor(w, "torch.float16"), "f16"), prune(w, "f16"))  # type: ignore[arg-type]
    words = prune(w.astype(np.float32), "bf16")
    assert np.array_equal(prune(Tensor(words, "torch.bfloat16"), "bf16"), words)  # type: ignore[arg-type]
