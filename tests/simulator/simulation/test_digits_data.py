"""The digits traces: what lies on disk is what the programs write, and means what it should."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.applications import digits_plan
from simulator.applications.digits_plan import PLANS, Plan
from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "traces" / "digits"))

import classify
import make_traces

from tests.support.cases import PROGRAMS, over

DIGITS = digits_plan.HERE
EVERY = over("plan", PLANS.values(), ids=PLANS.keys())
PTXAS = shutil.which("ptxas")


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return arrays(DIGITS / "weights.npz")


@pytest.fixture(scope="module")
def images() -> dict[str, np.ndarray]:
    return arrays(DIGITS / "images.npz")


def assert_same_arrays(one: Path, other: Path) -> None:
    a, b = arrays(one), arrays(other)
    assert a.keys() == b.keys()
    for key in a:
        assert a[key].dtype == b[key].dtype, key
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def exact_outputs(plan: Plan) -> dict[str, np.ndarray]:
    """What the trace should store, from the data file in float64: the sums rounded once."""
    data = arrays(DIGITS / f"{plan.name}.npz")
    w = digits_plan.values(digits_plan.dense_weights(plan, data["w"], data["e"]), plan.element).astype(np.float64)
    x = digits_plan.values(digits_plan.swizzle(data["x"]).astype(np.uint32), plan.element).astype(np.float64)
    d = w @ x.T + data["bias"].astype(np.float64)[:, None]
    bits = d.astype(np.int32 if plan.accumulator == "s32" else np.float32).view(np.uint32)
    tiles = bits.reshape(128, -1, 8)
    out = {plan.d_key: np.frombuffer(np.moveaxis(tiles[:, plan.head // 8 :], 0, 1).tobytes(), np.uint8)}
    if plan.head:
        head = np.moveaxis(tiles[:, : plan.head // 8].reshape(8, 16, -1, 8), 2, 1)
        out[plan.head_key] = plan.form.d.scatter(np.ascontiguousarray(head)).reshape(8, plan.head_registers, 32)  # type: ignore[assignment]
    return out


# ---- the files -------------------------------------------------------------------------------------------------------


def test_the_checked_in_files_are_what_the_program_writes(tmp_path: Path) -> None:
    make_traces.write(tmp_path)
    for name in PLANS:
        assert (tmp_path / f"{name}.trace").read_bytes() == (DIGITS / f"{name}.trace").read_bytes()
        assert_same_arrays(tmp_path / f"{name}.npz", DIGITS / f"{name}.npz")


def test_all_files_together_are_small() -> None:
    assert sum(f.stat().st_size for f in DIGITS.iterdir() if f.is_file()) < 3_000_000


@pytest.mark.exhaustive
@pytest.mark.skipif(PROGRAMS < 1000, reason="takes a minute: TCSIM_PROGRAMS=1000")
def test_training_again_gives_the_same_arrays(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    subprocess.run([sys.executable, str(DIGITS / "train.py"), "--out", str(tmp_path)], check=True, capture_output=True)
    for name in ("weights.npz", "images.npz"):
        assert_same_arrays(tmp_path / name, DIGITS / name)


# ---- the network -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "chunk", "keep"), [("2of4", 4, 2), ("1of2", 2, 1)])
def test_the_masks_are_structured_and_hold_every_weight(weights: Any, name: Any, chunk: Any, keep: Any) -> None:
    mask = weights[f"mask_{name}"]
    np.testing.assert_array_equal(mask.reshape(128, -1, chunk).sum(axis=-1), keep)
    assert not weights[f"w2_{name}"][~mask].any()


@pytest.mark.parametrize(("name", "chunk", "keep"), [("2of4", 4, 2), ("1of2", 2, 1)])
def test_the_masks_keep_the_largest_weights_of_the_dense_network(
    weights: Any, name: Any, chunk: Any, keep: Any
) -> None:
    w, mask = np.abs(weights["w2_dense"]).reshape(128, -1, chunk), weights[f"mask_{name}"].reshape(128, -1, chunk)
    smallest_kept = np.where(mask, w, np.inf).min(axis=-1)
    largest_dropped = np.where(mask, 0, w).max(axis=-1)
    assert (smallest_kept >= largest_dropped).all()


def network_accuracy(weights: Any, images: Any, name: str) -> float:
    values = images["images"].astype(np.float64)
    for layer in ("1", f"2_{name}", f"3_{name}"):
        values = np.maximum(values, 0.0) @ weights[f"w{layer}"].T.astype(np.float64) + weights[f"b{layer}"].astype(
            np.float64
        )
    return float(np.mean(values.argmax(axis=1) == images["labels"]))


def test_pruning_costs_little_accuracy(weights: Any, images: Any) -> None:
    dense = network_accuracy(weights, images, "dense")
    assert len(images["labels"]) == 384
    assert dense >= 0.97
    for name in ("2of4", "1of2"):
        assert network_accuracy(weights, images, name) >= max(0.97, dense - 0.01)


def test_the_training_tie_rule_keeps_the_lower_index() -> None:
    train = pytest.importorskip("train")
    w = np.array([[1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 2.0, -3.0]])
    np.testing.assert_array_equal(train.magnitude_mask(w, 4, 2), [[1, 1, 0, 0, 0, 0, 1, 1]])
    np.testing.assert_array_equal(train.magnitude_mask(w, 2, 1), [[1, 0, 1, 0, 1, 0, 0, 1]])


# ---- the operands ----------------------------------------------------------------------------------------------------


@EVERY
def test_fragments_loaded_as_the_program_loads_them_hold_the_weights(plan: Any, weights: Any) -> None:
    """Shared memory -> ldmatrix -> `Fragment.gather` and `Metadata.gather` -> the pruned matrix, rounded to the
    type."""
    data = arrays(DIGITS / f"{plan.name}.npz")
    make_traces.check(plan, data)
    decoded = digits_plan.values(digits_plan.dense_weights(plan, data["w"], data["e"]), plan.element)
    w = weights[f"w2_{plan.network}"].astype(np.float64) / data["w_scale"][:, None].astype(np.float64)
    np.testing.assert_array_equal(decoded, digits_plan.values(make_traces.encode(w, plan.type), plan.element))
    if plan.type in ("f16", "tf32"):
        np.testing.assert_array_equal(decoded, w)
    codes = digits_plan.metadata_codes(plan, data["e"])
    assert plan.form.metadata.legal(codes).all()


@EVERY
def test_activations_are_the_first_layer_rounded_to_the_type(plan: Any, weights: Any, images: Any) -> None:
    data = arrays(DIGITS / f"{plan.name}.npz")
    decoded = digits_plan.values(digits_plan.swizzle(data["x"]).astype(np.uint32), plan.element) * data["x_scale"]
    x = make_traces.activations(weights, images)[: plan.images]
    top = float(x.max())
    step = {"f16": 2.0**-11, "bf16": 2.0**-8, "tf32": 2.0**-11, "e4m3": 2.0**-4}.get(plan.type)
    limit = np.maximum(x * step, top * 1e-4) if step else float(data["x_scale"]) * 0.5001
    clipped = np.minimum(x, data["x_scale"] * make_traces.LIMITS.get(plan.type, np.inf))
    assert (np.abs(decoded - clipped) <= limit).all()


def lanes_registers(plan: Plan) -> dict[int, np.ndarray]:
    """The integer instructions before the first barrier, for all 256 threads: register -> what each thread holds."""
    text = re.sub(r"//.*", "", (DIGITS / f"{plan.name}.trace").read_text())
    lines = text[text.index(".warp 0-7 {") : text.index("bar.sync")].splitlines()[1:]
    registers = {}  # type: ignore[var-annotated]
    operation = {
        "add": np.add,
        "sub": np.subtract,
        "and": np.bitwise_and,
        "xor": np.bitwise_xor,
        "shl": np.left_shift,
        "shr": np.right_shift,
    }

    def value(word: str) -> np.ndarray:
        if word == "%tid.x":
            return np.arange(256)
        return registers[int(word[2:])] if word.startswith("%r") else np.full(256, int(word))

    for line in filter(None, (line.strip().rstrip(";") for line in lines)):
        name, rest = line.split(" ", 1)
        d, *sources = (word.strip() for word in rest.split(","))
        args = [value(word) for word in sources]
        name = name.split(".")[0]
        registers[int(d[2:])] = (
            args[0] if name == "mov" else args[0] * args[1] + args[2] if name == "mad" else operation[name](*args)
        )
    return registers


@EVERY
def test_the_program_computes_the_addresses_that_were_checked(plan: Any) -> None:
    registers, tid = lanes_registers(plan), np.arange(256)
    np.testing.assert_array_equal(registers[make_traces.A_ADDRESS], make_traces.a_address(plan, tid))
    np.testing.assert_array_equal(registers[make_traces.B_EVEN], make_traces.b_address(plan, tid))
    np.testing.assert_array_equal(registers[make_traces.B_ODD], make_traces.b_address(plan, tid) ^ 64)
    for pair in (0, 1):  # st.shared.v2 of registers 0, 1 and 2, 3: rows of 8 images, 32 bytes each
        row, column = plan.form.d.mapping.coordinates(lane=tid % 32, register=2 * pair, element=0)
        np.testing.assert_array_equal(
            registers[make_traces.D_ADDRESS] + 256 * pair, (tid // 32 * 16 + row) * 32 + column * 4
        )


@EVERY
def test_no_access_meets_a_bank_twice(plan: Any) -> None:
    registers = lanes_registers(plan)
    for register, width in (
        (make_traces.A_ADDRESS, 16),
        (make_traces.B_EVEN, 16),
        (make_traces.B_ODD, 16),
        (make_traces.D_ADDRESS, 8),
    ):
        phases = registers[register].reshape(-1, 128 // width)  # the lanes that are served in one cycle
        banks = (phases[..., None] // 4 + np.arange(width // 4)).reshape(len(phases), 32) % 32
        np.testing.assert_array_equal(np.sort(banks, axis=1), np.broadcast_to(np.arange(32), banks.shape))


@EVERY
def test_the_plan_fits_the_smallest_gpu(plan: Any) -> None:
    text = (DIGITS / f"{plan.name}.trace").read_text()
    shared = int(re.search(r"^\.shared (\d+)$", text, re.M)[1])  # type: ignore[index]
    assert shared == plan.shared <= (99 if plan.name.endswith("_99kb") else 160) * 1024
    assert max(int(n) for n in re.findall(r"%r(\d+)", text)) <= 254
    assert plan.d_bytes <= plan.shared
    assert (plan.images - plan.head) % digits_plan.GROUP == 0 == plan.head % digits_plan.GROUP


def entry(plan: Plan, target: str) -> str:
    """The trace's instructions as a kernel for ptxas."""
    text = (DIGITS / f"{plan.name}.trace").read_text()
    body = text[text.index(".warp 0-7 {") + len(".warp 0-7 {") : text.index(".store")].rstrip().removesuffix("}")
    body = re.sub(r"\.repeat \d+ \{", "{", body)
    return (
        f".version 8.5\n.target {target}\n.address_size 64\n.visible .entry "
        f"layer()\n{{\n.reg .b32 %r<256>;\n{body}\nret;\n}}\n"
    )


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
@over("target", ["sm_80", "sm_89", "sm_90a"])
@EVERY
def test_ptxas_takes_the_instructions(plan: Any, target: Any, tmp_path: Path) -> None:
    source = tmp_path / "layer.ptx"
    source.write_text(entry(plan, target))
    result = subprocess.run(
        [PTXAS, f"-arch={target}", "-o", str(tmp_path / "layer.cubin"), str(source)],  # type: ignore[list-item]
        capture_output=True,
        text=True,
        check=False,
    )
    has_it = plan.target != "sm_89" or target != "sm_80"  # sm_80 has no e4m3
    assert (result.returncode == 0) == has_it, result.stderr


# ---- the finisher ----------------------------------------------------------------------------------------------------


@EVERY
def test_exact_outputs_classify_as_numpy_does(plan: Any) -> None:
    result = classify.finish(exact_outputs(plan), plan.name)
    assert result["images"] == plan.images
    assert result["different"] == 0
    assert result["largest_difference"] < 1e-4
    assert result["accuracy"] == result["accuracy_numpy"] >= 0.97
    assert result["accuracy_dense"] >= 0.97


@EVERY
def test_the_rounded_layer_is_close_to_the_pruned_network(plan: Any, weights: Any, images: Any) -> None:
    layer = classify.finish(exact_outputs(plan), plan.name)["layer"]
    x = make_traces.activations(weights, images)[: plan.images].astype(np.float64)
    wanted = (
        weights[f"w2_{plan.network}"].astype(np.float64) @ x.T
        + weights[f"b2_{plan.network}"].astype(np.float64)[:, None]
    )
    error = np.abs(layer - wanted).max() / np.abs(wanted).max()
    assert error < {"f16": 1e-3, "bf16": 5e-3, "tf32": 1e-3, "s8": 3e-2, "e4m3": 5e-2}[plan.type]


@EVERY
def test_the_program_prints_the_accuracies(plan: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "out.npz", **exact_outputs(plan))
    assert classify.main([str(tmp_path / "out.npz")]) == 0
    assert f"{plan.name}: {plan.images} test images" in capsys.readouterr().out


def bad_file(folder: Path, what: str) -> Path:
    path = folder / "out.npz"
    good = exact_outputs(PLANS["f16"])
    if what == "text":
        path.write_text("no")
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "one array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif what == "no key":
        np.savez(path, d=np.zeros(3))
    elif what == "two types":
        np.savez(path, **good, **exact_outputs(PLANS["s8"]))
    elif what == "half":
        np.savez(path, d_f16=good["d_f16"])
    elif what == "shape":
        np.savez(path, d_f16=good["d_f16"][:-1], head_f16=good["head_f16"])
    elif what == "truncated":
        np.savez(path, **good)
        path.write_bytes(path.read_bytes()[:1000])
    elif what == "pickle":
        np.savez(path, d_f16=np.array([{}], dtype=object), allow_pickle=True)
    return path


@over("what", ["missing", "text", "empty", "one array", "no key", "two types", "half", "shape", "truncated", "pickle"])
def test_bad_input_is_one_line_and_exit_code_2(what: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert classify.main([str(bad_file(tmp_path, what))]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "out.npz" in err


def test_it_runs_as_a_script_from_anywhere(tmp_path: Path) -> None:
    np.savez(tmp_path / "out.npz", **exact_outputs(PLANS["s8"]))
    command = [sys.executable, str(DIGITS / "classify.py"), "out.npz", "--type", "s8"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "predictions other than numpy's  0" in result.stdout
