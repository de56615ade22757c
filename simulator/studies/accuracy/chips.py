"""The chips of an accuracy study: which of them have an instruction for the types in question, how many products it
adds, and on what evidence the way it adds is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isa.errors import IsaError
from isa.forms.mma import MmaForm, mma_forms
from isa.fragments.metadata import Sparsity, sparsity_of
from isa.targets import KNOWN, Target, parse_target
from isa.types import ELEMENT_TYPES, ElementType
from simulator.arithmetic import SumRow, SumRule, find_row, sum_row
from simulator.arithmetic.product import FAMILIES

INPUTS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
RESULTS = ("f32", "f16")

_BYTES = 32  # of A along K in one wgmma or tcgen05.mma, dense; PTX ISA 9.0, 9.7.15.2 and 9.7.16.2.1 (shapes)
_ONLY_F32 = ("bf16", "tf32")  # inputs that wgmma and tcgen05 add in f32 alone; PTX ISA 9.0, 9.7.15.2 and 9.7.16.2.1
_VARIANTS = ("", "a", "f")


@dataclass(frozen=True)
class Problem:
    """What is computed: the types of a matrix product, and whether A is sparse.

    Attributes:
        a_type, b_type: the element types of A and B.
        result: the type of the accumulator, f32 or f16.
        sparse: whether A is sparse and the `.sp` instructions multiply it.
    """

    a_type: ElementType
    b_type: ElementType
    result: ElementType
    sparse: bool

    @property
    def sparsity(self) -> Sparsity | None:
        """The sparsity pattern of A; None if A is dense."""
        return sparsity_of(self.a_type) if self.sparse else None

    def __str__(self) -> str:
        return (
            f"{self.a_type} x {self.b_type} -> "
            f"{self.result}{', A sparse ' + self.sparsity.name if self.sparsity else ''}"
        )


@dataclass(frozen=True)
class Chip:
    """One family of instructions, on targets that add alike.

    Attributes:
        targets: the names of the targets, for example ("sm_80", "sm_86").
        family: "mma", "wgmma" or "tcgen05", followed by ".sp" for the sparse instructions.
        k: how many products one instruction adds, K as named (a sparse one performs half of them).
        shape: "m16n8k16"; "k16" for wgmma and tcgen05, whose other sizes do not matter.
        rule: the rule by which it adds.
        evidence, source: on what evidence that is known; see `simulator.arithmetic.rows`.
    """

    targets: tuple[str, ...]
    family: str
    k: int
    shape: str
    rule: SumRule
    evidence: str
    source: str

    @property
    def name(self) -> str:
        """A name such as "sm_80/86/89 mma"."""
        first, *others = self.targets
        return "/".join([first, *(target.removeprefix("sm_") for target in others)]) + f" {self.family}"


def make_problem(a_type: str, b_type: str | None, result: str, sparse: bool) -> Problem:
    """The problem with these types; IsaError for types that no tensor core multiplies, or adds in."""
    for given in (a_type, b_type or a_type):
        if given not in INPUTS:
            exact = (
                " (integers are added exactly by every chip)"
                if given in ELEMENT_TYPES and not ELEMENT_TYPES[given].is_float
                else ""
            )
            raise IsaError(str(given), -1, f"no accuracy of inputs of type '{given}'{exact}", ", ".join(INPUTS))
    if result not in RESULTS:
        raise IsaError(str(result), -1, f"no tensor core adds these inputs in '{result}'", ", ".join(RESULTS))
    return Problem(ELEMENT_TYPES[a_type], ELEMENT_TYPES[b_type or a_type], ELEMENT_TYPES[result], sparse)


def chips(problem: Problem, wanted: Sequence[str] | None = None) -> list[Chip]:
    """The chips that are asked for, in that order ("sm_90" means its `mma`, "sm_90:wgmma" the other family). None
    stands for all that have the types, with those that add alike put together.

    Raises:
        IsaError: no such target or family, or it lacks an instruction for the problem; the error names those that have
            one.
    """
    if wanted is not None and not wanted:
        raise IsaError("", -1, "the list of targets is empty", _legal(problem))
    if wanted is not None:
        return [_wanted(problem, spec.strip()) for spec in wanted]
    selected: list[Chip] = []
    for chip in _all(problem):
        alike = next((i for i, x in enumerate(selected) if _same(x, chip)), None)
        if alike is None:
            selected.append(chip)
        else:
            selected[alike] = Chip(
                (*selected[alike].targets, *chip.targets),
                chip.family,
                chip.k,
                chip.shape,
                chip.rule,
                chip.evidence,
                chip.source,
            )
    if not selected:
        raise IsaError(
            "",
            -1,
            f"no chip is known that computes {problem}",
            "types that one chip multiplies together; `tcsim forms` lists them",
        )
    return selected


def _same(x: Chip, y: Chip) -> bool:
    """Whether two chips add alike, so that one line stands for both."""
    return (x.family, x.k, x.shape, x.rule, x.evidence, x.source) == (
        y.family,
        y.k,
        y.shape,
        y.rule,
        y.evidence,
        y.source,
    )


def _all(problem: Problem) -> list[Chip]:
    """Every chip that has an instruction for the problem."""
    pairs = ((Target(number, ""), family) for family in FAMILIES for number in KNOWN)
    return [chip for chip in (_chip(problem, target, family) for target, family in pairs) if chip is not None]


def _wanted(problem: Problem, spec: str) -> Chip:
    """The chip that "sm_90" or "sm_90:wgmma" names; IsaError if it lacks the instruction."""
    name, _, family = spec.partition(":")
    target = parse_target(name)
    if (family or "mma") not in FAMILIES:
        raise IsaError(spec, len(name) + 1, f"unknown family of instructions '{family}'", ", ".join(FAMILIES))
    chip = _chip(problem, target, family or "mma")
    if chip is None:
        what = f"{family or 'mma'}{'.sp' if problem.sparse else ''}"
        raise IsaError(spec, -1, f"{target} has no {what} of {problem} whose sum is known", _legal(problem))
    return chip


def _legal(problem: Problem) -> str:
    """The chips that have an instruction for the problem, as text for an error."""
    specs = [
        f"{target}{'' if chip.family.startswith('mma') else ':' + chip.family.split('.')[0]}"
        for chip in _all(problem)
        for target in chip.targets
    ]
    return ", ".join(specs) or "no target: other types"


def _chip(problem: Problem, target: Target, family: str) -> Chip | None:
    """The chip with a family of instructions for the problem; None if it has none."""
    try:
        instruction = _mma(problem, target) if family == "mma" else _asynchronous(problem, target, family)
    except IsaError:  # no row of `simulator.arithmetic.rows`
        return None
    if instruction is None:
        return None
    row, k, shape = instruction
    return Chip(
        (str(target),), family + (".sp" if problem.sparse else ""), k, shape, row.rule, row.evidence, row.source
    )


def _mma(problem: Problem, target: Target) -> tuple[SumRow, int, str] | None:
    """The sum row, K and shape of the form with the largest K that the chip has in any variant (sm_120 includes
    sm_120a)."""
    variants = [target] if target.suffix else [Target(target.number, suffix) for suffix in _VARIANTS]
    forms = [
        form
        for form in mma_forms().values()
        if _computes(form, problem) and any(form.supports(variant) for variant in variants)
    ]
    if not forms:
        return None
    form = max(forms, key=lambda form: form.k)
    return sum_row(form, target), form.k, f"m{form.m}n{form.n}k{form.k}"


def _computes(form: MmaForm, problem: Problem) -> bool:
    """Whether a form multiplies the types of the problem."""
    types = form.a_type, form.b_type, form.c_type, form.d_type
    return (
        not form.row.scale
        and form.sparse == problem.sparse
        and types == (problem.a_type, problem.b_type, problem.result, problem.result)
    )


def _asynchronous(problem: Problem, target: Target, family: str) -> tuple[SumRow, int, str] | None:
    """The same for wgmma or tcgen05."""
    a, b = problem.a_type, problem.b_type
    if (a != b and max(a.bits, b.bits) > 8) or (problem.result.name == "f16" and a.name in _ONLY_F32):
        return None
    row = find_row(family, target, a, sparse=problem.sparse)
    if row is not find_row(family, target, b, sparse=problem.sparse):
        return None
    k = _BYTES * 8 // a.bits * (2 if problem.sparse else 1)
    return row, k, f"k{k}"
