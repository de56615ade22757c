"""Which types go together, and what cuSPARSELt answers where they do not.

Measured with cuSPARSELt 0.8 on an NVIDIA H100 in November 2026: 1,920 combinations of the types of A, B, C and D and of
the compute type. Statuses are known from there alone; what other chips take is published (`support`).
`docs/sparselt_matmul.md` has every enumerator of the library.
"""

from __future__ import annotations

from isa.errors import IsaError
from isa.targets import Target
from simulator.studies.sparselt.support import DEFAULT_LIBRARY, check_chip, check_library

COMPUTE = ("32i", "32f", "16f")
"""CUSPARSE_COMPUTE_32I, _32F and _16F."""

ACCEPTED: tuple[tuple[str, str, str, str], ...] = (
    # A and B, C, D, compute
    ("f32", "f32", "f32", "32f"),
    ("f16", "f16", "f16", "16f"),
    ("f16", "f16", "f16", "32f"),
    ("bf16", "bf16", "bf16", "32f"),
    ("s8", "f16", "f16", "32i"),
    ("s8", "bf16", "bf16", "32i"),
    ("s8", "s8", "s8", "32i"),
    ("s8", "s32", "s32", "32i"),
    *(
        ("e4m3", c, d, "32f")
        for c, d in (("f32", "f32"), ("f16", "f16"), ("f16", "e4m3"), ("bf16", "bf16"), ("bf16", "e4m3"))
    ),
    *(
        ("e5m2", c, d, "32f")
        for c, d in (("f32", "f32"), ("f16", "f16"), ("f16", "e5m2"), ("bf16", "bf16"), ("bf16", "e5m2"))
    ),
)
"""What the library accepts on sm_90; it answers 10, not supported, to everything else."""

BLACKWELL_ONLY: tuple[tuple[str, str, str, str], ...] = tuple(
    ("e2m1", c, d, "32f")
    for c, d in (("f32", "f32"), ("f16", "f16"), ("f16", "e2m1"), ("bf16", "bf16"), ("bf16", "e2m1"))
)
"""What its descriptor takes on sm_90, but no algorithm does: it answers 7, architecture mismatch."""

DEFAULT_C = {"f32": "f32", "f16": "f16", "bf16": "bf16", "s8": "s8", "e4m3": "bf16", "e5m2": "bf16", "e2m1": "bf16"}
"""Type of C and D unless they are given."""

STATUSES = {0: "success", 3: "invalid value", 7: "architecture mismatch", 10: "not supported"}
MEASURED = 90
"""The target on which statuses were measured."""
_PRODUCTS = ("f32", "f16", "bf16", "s8", "e4m3", "e5m2")
ASKED: dict[str, tuple[str, ...]] = {
    "types": (*_PRODUCTS, "s32", "e2m1"),
    "epilogue": _PRODUCTS,
    "matrix": ("f16", "s8", "e4m3"),
    "algorithm": ("f16", "f32", "e4m3"),
}
"""By question, the types of A and B of which the library was asked it: which types go together; GELU and vectors of
alpha and beta; shapes, leading dimensions, alignments and orders of matrices; what an algorithm takes."""

_GELU = {
    ("s8", "s8"),
    ("e4m3", "e4m3"),
    ("e4m3", "bf16"),
    ("e5m2", "e5m2"),
    ("e5m2", "bf16"),
    ("e2m1", "e2m1"),
    ("e2m1", "bf16"),
}  # A and D


def type_status(a: str, c: str, d: str, compute: str) -> int:
    """What the library answers to these types on sm_90: 0, 7 or 10."""
    asked = (a, c, d, compute)
    return 0 if asked in ACCEPTED else 7 if asked in BLACKWELL_ONLY else 10


def gelu_status(a: str, d: str) -> int:
    """What the library answers to GELU: 0, or 3."""
    return 0 if (a, d) in _GELU else 3


def vector_status(a: str) -> int:
    """What the library answers to a vector of alpha or beta: 0, or 10."""
    return 0 if a == "s8" else 10


def measured_status(status: int, question: str, type: str = "", target: Target | None = None) -> str:
    """A status in words, with where it is known from; without the status where it was not measured.

    Args:
        status: one of `STATUSES`.
        question: one of `ASKED`.
        type: of A and B; "": not known, and the types that were asked about are named.
        target: the chip; None: not known.
    """
    words = f"status {status}, {STATUSES[status]}"
    *others, last = ASKED[question]
    asked = f"{', '.join(others)} and {last}"
    if target is not None and target.number != MEASURED:
        return f"as cuSPARSELt 0.8 does on an H100; of {target} nobody has asked it"
    if type and type not in ASKED[question]:
        return f"as cuSPARSELt 0.8 does with {asked} on an H100; of {type} nobody has asked it"
    return f"cuSPARSELt 0.8 on an H100: {words}" + f" of {asked}" * (not type)


def check_types(
    a: str,
    c: str,
    d: str,
    compute: str,
    target: Target,
    library: str = DEFAULT_LIBRARY,
    *,
    block_scaled: bool = False,
    sparse: bool = True,
) -> None:
    """IsaError where the library refuses the types on the chip: with its status where that was measured, else with the
    table that does not list them. A dense product is none of the library's: every chip's instructions may have it."""
    check_library(library)
    if compute not in COMPUTE:
        raise IsaError(str(compute), -1, f"compute={compute!r} is not a compute type", ", ".join(COMPUTE))
    types = a, c, d, compute
    if types not in ACCEPTED and types not in BLACKWELL_ONLY:
        measured = target.number == MEASURED and set(types[:3]) <= set(ASKED["types"])
        source = measured_status(10, "types", a) if measured else f"published: README of cuSPARSELt {library}"
        legal = [f"c_type={row[1]}, d_type={row[2]}, compute={row[3]}" for row in ACCEPTED if row[0] == a]
        reason = f"cuSPARSELt has no product of {a} with c_type={c}, d_type={d}, compute={compute} ({source})"
        raise IsaError(a, -1, reason, "; or ".join(legal) or "f16, bf16, f32, s8, e4m3, e5m2; on Blackwell e2m1")
    if not sparse:
        return
    if types in BLACKWELL_ONLY and target.number == MEASURED:
        reason = f"cuSPARSELt multiplies {a} on Blackwell alone, not on {target} ({measured_status(7, 'types', a)})"
        raise IsaError(a, -1, reason, "f16, bf16, f32, s8, e4m3, e5m2")
    check_chip(types, target, library, block_scaled)


def bias_type(a: str, c: str, d: str) -> str:
    """The type of the bias: f32 for s8 into s8 or s32, else that of C (sm_90; measured)."""
    return "f32" if a == "s8" and d in ("s8", "s32") else c
