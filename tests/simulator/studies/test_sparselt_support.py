"""Which chip takes which types: against the tables of the library's READMEs, written here a second time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pytest

from isa.errors import IsaError
from isa.targets import parse_target
from simulator.studies.sparselt.descriptors import BITS, MatmulDescriptor, MatrixDescriptor
from simulator.studies.sparselt.multiply import matmul
from simulator.studies.sparselt.plan import AlgorithmSelection, Plan
from simulator.studies.sparselt.pruning import prune
from simulator.studies.sparselt.scales import Scales
from simulator.studies.sparselt.vocabulary import ACCEPTED, BLACKWELL_ONLY, check_types

WIDE = "8.0 8.6 8.7 9.0 10.0 {} 11.0 12.0 12.1"
LISTED = {  # column "Support SM arch"; {} is 10.1 in 0.8.1 (which is 11.0 since CUDA 13), 10.3 in 0.10.0
    ("f16", "32f"): WIDE,
    ("bf16", "32f"): WIDE,
    ("f32", "32f"): WIDE,
    ("f16", "16f"): "9.0",
    ("s8", "32i"): "8.0 8.6 8.7 9.0 10.0 11.0 12.0 12.1",
    ("e4m3", "32f"): "9.0 10.0 {} 11.0 12.0 12.1",
    ("e5m2", "32f"): "9.0 10.0 {} 11.0 12.0 12.1",
    ("e2m1", "32f"): "10.0 {} 11.0 12.0 12.1",
}
NEW = {"0.8.1": "10.1", "0.10.0": "10.3"}
CHIPS = ("sm_80", "sm_86", "sm_87", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")
RNG = np.random.default_rng(8)


def numbers(type: str, rows: int = 64) -> np.ndarray:
    return RNG.integers(-3, 4, (rows, 128)).astype(np.float64)


@pytest.mark.parametrize("library", NEW)
def test_each_chip_takes_what_the_table_lists(library: str) -> None:
    for types, target in product((*ACCEPTED, *BLACKWELL_ONLY), CHIPS):
        chip = parse_target(target)
        listed = LISTED[types[0], types[3]].format(NEW[library]).split()
        if f"{chip.number // 10}.{chip.number % 10}" in listed:
            check_types(*types, chip, library)
            continue
        with pytest.raises(IsaError) as caught:
            check_types(*types, chip, library)
        assert ("status" in str(caught.value)) == (chip.number == 90), str(caught.value)
        assert chip.number == 90 or "published" in str(caught.value)


def test_ada_has_what_its_release_notes_name() -> None:
    for type in ("f16", "s8", "e4m3", "e5m2"):
        assert matmul(prune(numbers(type), type, "strip"), numbers(type), type=type, target="sm_89").d.size
    with pytest.raises(IsaError, match="for sm_89"):
        matmul(prune(numbers("f16"), "f16", "strip"), numbers("f16"), type="f16", compute="16f", target="sm_89")


def test_versions_that_differ_are_said() -> None:
    a, b = prune(numbers("f16"), "f16", "strip"), numbers("f16")
    found = matmul(a, b, type="f16", target="sm_103a")
    assert found.library == "0.10.0"
    assert any("0.8.1 does not" in note for note in found.notes)
    with pytest.raises(IsaError, match=r"library 0\.10\.0 lists sm_103a"):
        matmul(a, b, type="f16", target="sm_103a", library="0.8.1")
    with pytest.raises(IsaError, match="did you mean"):
        matmul(a, b, type="f16", library="0.10.1")
    assert not matmul(a, b, type="f16", target="sm_100a").notes


def test_a_dense_product_is_none_of_the_librarys() -> None:
    a, b = numbers("s8"), numbers("s8")
    assert matmul(a, b, type="s8", target="sm_103a", sparse=None).d.size
    assert matmul(a, b, type="f16", compute="16f", target="sm_80", sparse=None).d.size


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"])
def test_block_scales_wherever_the_table_has_them(target: str) -> None:
    for type, block, two in (("e2m1", 32, 0x40), ("e4m3", 64, 128)):
        a, b = prune(numbers(type), type, "strip"), numbers(type)
        factors = np.full((64, 128 // block), two, np.uint8)
        plain = matmul(a, b, type=type, c_type="f32", target=target)
        scaled = matmul(a, b, type=type, c_type="f32", target=target, scales=Scales(factors, factors))
        assert np.array_equal(scaled.values, 4 * plain.values)
        assert scaled.losses["total"].relative < 1e-6  # type: ignore[union-attr,operator]
    with pytest.raises(IsaError, match="block scales"):
        matmul(a, b, type=type, target="sm_89", scales=Scales(factors, factors))


def descriptor(target: str, type: str = "e4m3", result: str = "bf16") -> MatmulDescriptor:
    a, b = MatrixDescriptor(64, 128, type, structured=True), MatrixDescriptor(64, 128, type)
    c = MatrixDescriptor(64, 64, result)
    return MatmulDescriptor(a, b, c, c, target=target)


def test_a_plan_takes_scales() -> None:
    a, b = prune(numbers("e4m3"), "e4m3", "strip"), numbers("e4m3")
    memory, found = Plan(descriptor("sm_100a"))(a, b, scales=Scales(2.0, 2.0))
    wanted = matmul(a, b, type="e4m3", target="sm_100a", scales=Scales(2.0, 2.0))
    assert np.array_equal(found.d[0], wanted.d)
    assert np.array_equal(memory.reshape(64, 64), wanted.d)
    assert np.array_equal(wanted.values, 4 * matmul(a, b, type="e4m3", target="sm_100a").values)


@pytest.mark.parametrize(
    ("selection", "target", "words"),
    [
        ({"mode": "one_kernel"}, "sm_100a", "one_kernel"),
        ({"mode": "two_kernels"}, "sm_103a", "two_kernels"),
        ({"mode": "streamk"}, "sm_80", "streamk"),
        ({"split_k": 4}, "sm_120a", "split_k = 4"),
        ({"mode": "dataparallel", "split_k": -1}, "sm_100a", "does not split K"),
        ({"config_id": 999}, "sm_100a", "config id"),
    ],
)
def test_selections_are_refused_without_a_status_that_nobody_measured(
    selection: dict[str, object], target: str, words: str
) -> None:
    with pytest.raises(IsaError, match=words) as caught:
        AlgorithmSelection(**selection).check(target)  # type: ignore[arg-type]
    assert "status" not in str(caught.value)


def test_no_status_is_printed_of_what_the_library_was_never_asked() -> None:
    """Statuses of matrices were recorded with f16, s8 and e4m3, of epilogues with the types of products, of types with
    all that the library names; all on an H100 (tests/golden/record_sparselt_matmul.py)."""
    a, b = prune(numbers("f16"), "f16", "strip"), numbers("f16")
    vector = np.ones(64)
    asked: list[tuple[bool, Callable[[], object]]] = [
        *((type in ("f16", "s8", "e4m3"), partial(MatrixDescriptor, 7, 64, type)) for type in sorted(BITS)),
        *((type in ("f16", "s8", "e4m3"), partial(MatrixDescriptor, 64, 64, type, ld=32)) for type in sorted(BITS)),
        (False, partial(matmul, a, b, type="s4")),
        (True, partial(matmul, a, b, type="s32")),
        (True, partial(matmul, a, b, type="f16", alpha=vector)),
        (False, partial(matmul, a, b, type="f16", target="sm_80", alpha=vector)),
        (False, partial(matmul, a, b, type="e2m1", target="sm_100a", alpha=vector)),
        (True, partial(matmul, a, b, type="f16", activation="gelu")),
        (False, partial(matmul, a, b, type="f16", activation="gelu", target="sm_120a")),
    ]
    for measured, ask in asked:
        with pytest.raises(IsaError) as caught:
            ask()
        assert ("status" in str(caught.value)) == measured, str(caught.value)


def test_slices_that_the_library_refuses_are_said() -> None:
    a, b = prune(numbers("f16"), "f16", "strip"), numbers("f16")
    for target, slices, said in (
        ("sm_90a", 4, "takes 1, or -1 for segment-K on sm_90a (cuSPARSELt 0.8 on an H100: status 3"),
        ("sm_100a", 2, "(published: NVIDIA's text of SM 10.0)"),
        ("sm_80", -1, "takes 1 to K on sm_80"),
        ("sm_90a", -1, ""),
        ("sm_80", 4, ""),
    ):
        notes = [note for note in matmul(a, b, type="f16", target=target, split_k=slices).notes if "split_k" in note]
        assert len(notes) == bool(said)
        assert not said or said in notes[0]
    assert not [note for note in matmul(a, b, type="f16", sparse=None, split_k=4).notes if "split_k" in note]


@pytest.mark.parametrize(
    ("target", "mode", "said"),
    [
        ("sm_100a", "", "heuristic"),
        ("sm_100a", "heuristic", "heuristic"),
        ("sm_100a", "splitk", "splitk"),
        ("sm_120a", "streamk", "streamk"),
        ("sm_100a", "dataparallel", ""),
        ("sm_90a", "two_kernels", ""),
    ],
)
def test_modes_that_change_nothing_here_say_so(target: str, mode: str, said: str) -> None:
    a, b = prune(numbers("e4m3"), "e4m3", "strip"), numbers("e4m3")
    notes = Plan(descriptor(target), AlgorithmSelection(mode=mode))(a, b)[1].notes
    assert [f"mode '{said}'" in note for note in notes] == ([True] if said else [])
