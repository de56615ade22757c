"""What an H100 computed, bit for bit, against the simulator and against models in integers; measurements/README.md
says how it was recorded.

`golden/h100_numerics.npz` holds uint32 [case, word, lane] for each opcode: `|random|in` (A, B, C and metadata),
`|random|out`, the same for `|probes`, and `|2x16x1|out` for the first cases of `random` in blocks of that shape, where
it differs from what other blocks give.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from measurements import numerics_reference as reference
from measurements.numerics import BLOCKS_KEPT, CASES, contents, digest, kept_cases, recorded
from measurements.numerics_forms import BITS, BLOCKS, FORMS, Form
from measurements.numerics_inputs import floats, probes, random_cases
from measurements.numerics_layout import Registers, elements
from tests.support.cases import over
from tests.support.paths import ROOT, TESTS

GOLDEN = TESTS / "golden" / "h100_numerics.npz"
with np.load(GOLDEN) as _data:
    RECORDED = {key: _data[key] for key in _data.files}
OPCODES = sorted({key.split("|")[0] for key in RECORDED})


@cache
def recording(opcode: str) -> list[tuple[str, Registers, Registers]]:
    """(name, inputs, outputs) of everything recorded of one instruction."""
    names = [key.split("|")[1] for key in RECORDED if key.startswith(f"{opcode}|") and key.endswith("|out")]
    inputs = {
        name: RECORDED.get(f"{opcode}|{name}|in", RECORDED[f"{opcode}|random|in"][:BLOCKS_KEPT]) for name in names
    }
    return [(name, inputs[name], RECORDED[f"{opcode}|{name}|out"]) for name in names]


def first_difference(form: Form, name: str, expected: Registers, found: Registers) -> str:
    """Empty if there is none."""
    wrong = np.argwhere(expected != found)
    if not len(wrong):
        return ""
    case, word, lane = wrong[0]
    which = probes(form)[kept_cases(form, name)[case]][0] if name == "probes" else f"case {case}"
    values = f"{expected[case, word, lane]:#x}, recorded {found[case, word, lane]:#x}"
    return f"{form.opcode}, {name}: {which}, word {word} of lane {lane}: {values}; {len(wrong)} words differ"


@over("opcode", OPCODES, distinct=lambda opcode: FORMS[opcode].group)
def test_models_give_every_recorded_bit(opcode: str) -> None:
    form = FORMS[opcode]
    for name, given, found in recording(opcode):
        block = reference.BLOCK if name in ("random", "probes") else reference.block_of(name)
        assert not first_difference(form, name, reference.expected(form, given, block, kept_cases(form, name)), found)


@over("opcode", OPCODES)
def test_simulator_gives_every_recorded_bit(opcode: str) -> None:
    form = FORMS[opcode]
    for name, given, found in recording(opcode):
        if name in ("random", "probes"):
            assert not first_difference(form, name, reference.simulated(form, given), found)


def test_every_form_is_recorded() -> None:
    assert sorted(FORMS) == OPCODES
    for form in FORMS.values():
        names = {name for name, _, _ in recording(form.opcode)}
        assert "random" in names
        assert ("probes" in names) == (form.d != "s32")


@over("opcode", OPCODES, distinct=lambda opcode: FORMS[opcode].group)
def test_contents_are_those_made_here(opcode: str) -> None:
    form = FORMS[opcode]
    made = random_cases(form, max(kept_cases(form, "random")) + 1)
    assert np.array_equal(made[kept_cases(form, "random")], RECORDED[f"{opcode}|random|in"])


# The facts, as sentences


@cache
def names_of_probes(opcode: str) -> list[str]:
    return [name for name, _ in probes(FORMS[opcode])]


def one(opcode: str, name: str) -> int:
    """The result of a probe, the same in every lane and register."""
    form = FORMS[opcode]
    case = names_of_probes(opcode).index(name) // (4 if form.wgmma else 1)
    words = RECORDED[f"{opcode}|probes|out"][case]
    values = elements(words, form.d)
    assert (values == values.flat[0]).all()
    return int(values.flat[0]) & ((1 << BITS[form.d]) - 1)


F64 = "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"
VOLTA_F32 = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
VOLTA_F16 = "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16"
TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
F16 = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
FP8_F16 = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
MINUS = "zeros: all products -0 * 1, C -0"


@over(
    ("opcode", "probe", "result"),
    [
        (F64, MINUS, 1 << 63),
        (VOLTA_F16, MINUS, 0x8000),
        *((opcode, MINUS, 0) for opcode in (VOLTA_F32, TF32, BF16, F16, FP8, FP8_F16)),
        (F64, "special: inf * 0", 0xFFF8 << 48),
        (F64, "special: inf - inf", 0xFFF8 << 48),
        (F64, "special: nan minus C", 0xFFF8000000000155),
        (F64, "special: three nans", 0xFFF8000000000456),
        (F64, "special: nans in A and C", 0xFFF8000000000789),
        (F64, "special: inf * 0, later nan in A", 0xFFF8 << 48),
        (F64, "special: -0 * inf, C nan", 0x7FF8000000000007),
        (F64, "order: C 1, 2^-53 in all", 0x3FF << 52),
        (F64, "order: 2^-53, 2^-53, 1", 0x3FF0000000000001),
        (VOLTA_F32, "special: nan minus C", 0x7FFFFFFF),
        (VOLTA_F16, "special: nan minus C", 0x7FFF),
        (TF32, "overflow: big + big", 0x7F800000),
        (BF16, "overflow: big + big", 0x7F800000),
        (BF16, "overflow: big * big - big * big + 1", 0),
        (F16, "floor: 2^-25 + 2^-46", 1),
        (F16, "floor: 2^-25 + 2^-47", 0),
        (BF16, "floor: 2^-149 - 2^-158", 0),
        (BF16, "floor: 2^-149 - 2^-159", 1),
        (FP8, "special: nan minus C", 0x7FFFFFFF),
        (FP8_F16, "special: nan minus C", 0x7FFF),
    ],
)
def test_facts(opcode: str, probe: str, result: int) -> None:
    assert one(opcode, probe) == result


def test_tf32_drops_13_bits_before_it_looks_for_nan() -> None:
    form = FORMS[TF32]
    found = {}
    for low in (0x1, 0x1FFF, 0x2000):
        words = np.zeros((1, form.inputs, 32), np.uint32)
        words[:, : form.words[0]], words[:, form.words[0] : sum(form.words[:2])] = 0x7F800000 | low, 0x3F800000
        found[low] = int(reference.expected(form, words)[0, 0, 0])
    assert found == {0x1: 0x7F800000, 0x1FFF: 0x7F800000, 0x2000: 0x7FFFFFFF}
    given = RECORDED[f"{TF32}|random|in"][:, : form.words[0]]
    low_only = (given & 0x7FFFE000 == 0x7F800000) & (given & 0x1FFF != 0)
    assert low_only.any()  # recorded, so the models' agreement shows it


def test_only_sparse_8_bit_floats_depend_on_the_shape_of_the_block() -> None:
    wrong = {f"{x}x{y}x{z}" for x, y, z in BLOCKS if x % 4}
    for opcode in OPCODES:
        found = {name for name, _, _ in recording(opcode)} - {"random", "probes"}
        assert found == (wrong if FORMS[opcode].group == "sparse_fp8" else set())
        for name in found:
            assert (RECORDED[f"{opcode}|{name}|out"] != RECORDED[f"{opcode}|random|out"][:BLOCKS_KEPT]).any()


# That the recordings tell rules apart


def words_that_differ(opcodes: list[str]) -> int:
    return sum(
        int((reference.expected(FORMS[o], given) != found).sum())
        for o in opcodes
        for name, given, found in recording(o)
        if "x" not in name
    )


@over(("fraction", "floor"), [(-1, 0), (1, 0), (0, -1), (0, 1)])
@over(
    "opcode",
    [
        F16,
        BF16,
        TF32,
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2",
        FP8,
    ],
)
def test_other_widths_and_floors_are_told_apart(
    opcode: str, fraction: int, floor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = reference.fused_step
    monkeypatch.setattr(
        reference,
        "fused_step",
        lambda a, b, c, d, bits, low, kept=23: step(a, b, c, d, bits + fraction, low + floor, kept),
    )
    matters = not floor or BITS[FORMS[opcode].a] > 8  # products of 8-bit floats never come near the floor
    assert (words_that_differ([opcode]) > 0) == matters


def test_other_orders_of_nan_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply_add = reference.fma64

    def preferring(order: tuple[int, ...]) -> None:
        def fma64(*arguments: int | str) -> int:
            nans = [
                arguments[i]
                for i in order
                if isinstance(arguments[i], int) and int(arguments[i]) & (1 << 63) - 1 > 0x7FF << 52
            ]
            return int(nans[0]) | 1 << 51 if nans else multiply_add(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(reference, "fma64", fma64)

    for order in itertools.permutations(range(3)):
        preferring(order)
        assert (words_that_differ([F64]) == 0) == (order == (1, 2, 0))


def test_model_of_blocks_differs_from_the_ordinary_one_where_it_should() -> None:
    form = next(f for f in FORMS.values() if f.group == "sparse_fp8")
    given = RECORDED[f"{form.opcode}|random|in"]
    usual = reference.floats_sparse(form, given)
    assert np.array_equal(usual, reference.expected(form, given))
    for block in BLOCKS:
        assert np.array_equal(usual, reference.expected(form, given, block)) == (block[0] % 4 == 0)


@pytest.mark.exhaustive
@over("assembler", ["12.4.131", "12.6.85"])
def test_older_assemblers_add_the_two_steps_of_8_bit_floats_apart(
    assembler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digests of what code of these assemblers gave on the same GPU, where it differs from that of 13.0.88."""
    facts = json.loads((ROOT / "measurements" / "results" / "numerics_assemblers.json").read_text())
    different = facts["assemblers"][assembler]["different"]
    assert {FORMS[key.split("|")[0]].group for key in different} <= {"fp8", "sparse_fp8"}
    for separate in (False, True):
        monkeypatch.setattr(reference, "SEPARATE_STEPS", separate)
        for key, result in different.items():
            form = FORMS[key.split("|")[0]]
            given = contents(form, 1)[key.split("|")[1]]
            found = reference.floats_sparse(form, given) if form.sparse else reference.floats_dense(form, given)
            assert (digest(found) == result) == separate, key


def test_values_of_each_kind() -> None:
    from measurements.numerics_inputs import KINDS, Stream

    for element, kind in itertools.product(("f16", "bf16", "e4m3", "e5m2", "f32", "f64"), KINDS):
        patterns = floats(Stream(7), element, kind, 4096)
        bits = BITS[element]
        assert int(patterns.max()) >> (bits - 1) <= 1
        assert len(np.unique(patterns)) > 2


@pytest.mark.hardware
def test_measured_again(tmp_path: Path) -> None:
    for arguments in (("build",), ("run", "--output", tmp_path / "out")):
        command = [
            sys.executable,
            "-m",
            "measurements.numerics",
            *map(str, arguments),
            "--build",
            str(tmp_path / "build"),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
    seen = set()
    for form, name, given, found in recorded(tmp_path / "out"):
        cases = kept_cases(form, name)
        assert len(given) in (CASES, len(probes(form)), len(found))
        assert np.array_equal(found[cases], RECORDED[f"{form.opcode}|{name}|out"]), f"{form.opcode}|{name}"
        seen.add(f"{form.opcode}|{name}|out")
    assert seen == {key for key in RECORDED if key.endswith("|out")}
