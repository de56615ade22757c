"""Executes `wgmma`: D = A * B + D of the four warps of each warpgroup that executes the instruction together.

D is there at issue, so the fence, the commit and the wait change nothing, unless `simulator.execute.completion` says
when products complete: descriptors, scale-d and metadata are read at issue, all else when the product happens. Reading
shared memory and choosing columns by metadata is measured on an NVIDIA H100, November 2026
(tests/golden/launches/wgmma_*): what descriptors and metadata PTX leaves undefined has a result, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.forms.wgmma import WgmmaForm, is_wgmma
from isa.fragments.warpgroup import LANES, WARPS
from isa.ptx.instruction import Immediate, Instruction, register_names
from isa.shared_memory.hopper import unit_addresses_of
from isa.shared_memory.layout import MN, K
from isa.shared_memory.packing import UNIT, packing
from isa.targets import Target
from isa.types import Bits, ElementType
from isa.undefined import first_metadata_finding, metadata_findings
from simulator.arithmetic import Operands, Sum, add
from simulator.arithmetic.rows import find_row
from simulator.execute.asynchronous import PRODUCT, Effect
from simulator.execute.completion import Completion
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import CommitProductsFacts, Fact, Idle, ProductFacts, WaitProductsFacts
from simulator.execute.memory import raced, region
from simulator.execute.operands import place_of, predicate, reader, writer
from simulator.execute.registry import prepares
from simulator.state.registers import Warps

_FACTS: dict[str, Fact] = {"wgmma.fence": Idle(), "wgmma.commit_group": CommitProductsFacts()}
Places = NDArray[np.int64]
Locate = Callable[[CtaState, Warps], Places]  # addresses in shared memory, [warpgroup, unit]
Matrices = Callable[[CtaState, Warps, Places], Bits]  # a matrix of each warpgroup: [warpgroup, row, column]


@prepares("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")
def order_products(instruction: Instruction, form: Form) -> Executor:
    """wgmma.fence, commit_group and wait_group: PTX ISA 9.0, 9.7.15.7. They only tell the listeners, and who decides
    when products complete."""
    left = instruction.by_role.get("groups", Immediate(0))
    assert isinstance(left, Immediate)
    fact = _FACTS.get(form.name, WaitProductsFacts(left.value))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if machine.completion is not None:
            _order(machine.completion, form.name, warps, left.value)
        machine.note(instruction, warps)
        return Outcome(facts=(fact,) * len(warps)) if machine.timed else NOTHING

    return run


class TensorCores:
    """What the tensor cores of the four warps of each warpgroup do with operands, in order. What else they may do, such
    as a fault makes of it, is a class derived from this one."""

    def codes(self, form: WgmmaForm, warps: Warps, words: Bits, selector: int) -> Bits:
        """The codes [warpgroup, row, chunk] in words of metadata [warpgroup, lane of 128]."""
        return form.metadata.gather(words, selector)

    def add(self, warps: Warps, how: Sum, operands: Operands) -> Bits:
        """D [warpgroup, row, column] of operands with a case for each warpgroup."""
        return add(how, operands)


@prepares("wgmma.mma_async")
def multiply_matrices(instruction: Instruction, form: Form) -> Executor:
    """wgmma.mma_async and its sparse form, of warps of which each four are a warpgroup. PTX ISA 9.0, 9.7.15.5.2,
    9.7.15.6.3."""
    return multiplied_by(TensorCores(), instruction, form)


def multiplied_by(cores: TensorCores, instruction: Instruction, form: Form) -> Executor:
    """The same on given tensor cores; a guard of the instruction is for the caller to apply."""
    assert is_wgmma(form)
    (locate_a, read_a), (locate_b, read_b) = _a(instruction, form), _b(instruction, form)
    accumulators, write = reader(instruction["d"]), writer(instruction["d"])
    numbers = [place_of(name).number for name in register_names(instruction["d"])]
    metadata = reader(instruction["e"]) if form.sparse else None
    selector = instruction.selector if form.sparse else 0
    accumulates = predicate(instruction["scale_d"])
    negative = _sign(instruction, "scale_a") * _sign(instruction, "scale_b") < 0
    fact = ProductFacts(form.n, form.sparse, bool(form.a_in_registers), not form.a_type.is_float)

    def product(
        machine: CtaState, warps: Warps, at_a: Places, at_b: Places, kept: NDArray[Any], codes: Bits | None = None
    ) -> Bits:
        before = accumulators(machine, warps)
        a, b = read_a(machine, warps, at_a), read_b(machine, warps, at_b)
        if negative:  # the signs of products, after metadata have chosen elements of B (measured)
            a = a ^ np.uint32(1 << (form.a_type.bits - 1))
        c = form.d.gather(_words(before))
        c = np.where(kept[:, None, None], c, np.uint32(0))
        d = cores.add(warps, sum_of(form, machine.target, machine.arithmetic), Operands(a, b, c, codes))
        return _registers(form.d.scatter(d))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if machine.arithmetic == "none":
            return Outcome(facts=(fact,) * len(warps)) if machine.timed else NOTHING
        at = locate_a(machine, warps), locate_b(machine, warps)
        kept = _uniform(machine, form, accumulates(machine, warps), warps)
        given: tuple[NDArray[Any], ...] = (*at, kept)
        if metadata is not None:
            codes = cores.codes(form, warps, _words(metadata(machine, warps))[:, 0], selector)
            _note_undefined(machine, form, codes, selector)
            given = (*given, codes)
        if machine.completion is None:
            write(machine, warps, product(machine, warps, *given))
        else:
            _hand_over(machine, machine.completion, _Product(form, warps, given, product, write, numbers))
        return Outcome(facts=(fact,) * len(warps)) if machine.timed else NOTHING

    return run


def _order(completion: Completion, name: str, warps: Warps, left: int) -> None:
    """Tells who decides when products complete of a fence, a commit or a wait."""
    first = np.zeros((len(warps), LANES), np.bool_)
    first[:, 0] = True
    if name == "wgmma.fence":
        completion.fenced(warps)
    elif name == "wgmma.commit_group":
        completion.commit(PRODUCT, warps, first)
    else:
        completion.wait(PRODUCT, warps, first, left)


class _Product(NamedTuple):
    """A product that happens later.

    Attributes:
        given: for each warpgroup the places of A and of B, whether D is added to, and the codes of sparse products.
        product, write: compute the registers of D, and write them.
        numbers: of these registers.
    """

    form: WgmmaForm
    warps: Warps
    given: tuple[NDArray[Any], ...]
    product: Callable[..., Bits]
    write: Callable[[CtaState, Warps, Bits], None]
    numbers: Sequence[int]


def _hand_over(machine: CtaState, completion: Completion, what: _Product) -> None:
    """Lets a product happen when `completion` says so: one element for each warpgroup."""
    warps, rows = what.warps, what.warps.reshape(-1, WARPS)
    places = np.concatenate(what.given[:2], axis=1)
    reads = machine.places(warps[::WARPS], places)[..., None] + np.arange(UNIT)

    def of(chosen: NDArray[np.bool_]) -> Warps:
        return warps if chosen.all() else rows[chosen].ravel()

    def fetch(chosen: NDArray[np.bool_]) -> Bits:
        given = [each[chosen] for each in what.given]
        found: Bits = completion.as_seen(lambda: what.product(machine, of(chosen), *given))
        return found

    def store(chosen: NDArray[np.bool_], data: Bits) -> None:
        what.write(machine, of(chosen), data)
        completion.written(of(chosen), what.numbers)

    effect = Effect(fetch, store, reads.reshape(len(rows), -1))
    completion.begin(PRODUCT, what.form.name, effect, rows, np.zeros(len(rows), np.intp))


@lru_cache(maxsize=1024)
def sum_of(form: WgmmaForm, target: Target, arithmetic: str) -> Sum:
    """How a form adds on a target, or exactly; raises IsaError if no arithmetic of the target is known."""
    chip = form.a_type.is_float and arithmetic == "chip"
    rule = find_row("wgmma", target, form.a_type, sparse=form.sparse).rule if chip else None
    types = form.a_type, form.b_type, form.d_type, form.d_type
    sparsity = form.metadata.sparsity if form.sparse else None
    return Sum(form.m, form.n, form.k, *types, rule, sparsity, form.saturate, operation=form.operation)


def _sign(instruction: Instruction, name: str) -> int:
    """The constant 1 or -1 by which an operand is multiplied; 1 where the form has none."""
    given = instruction.by_role.get(name)
    return given.value if isinstance(given, Immediate) else 1


def _transposed(instruction: Instruction, name: str) -> bool:
    """Whether a matrix in shared memory is MN-major."""
    given = instruction.by_role.get(name)
    return isinstance(given, Immediate) and given.value == 1


# Operands


def _words(values: NDArray[Any]) -> Bits:
    """[warp, register, lane] of warps of which each four are a warpgroup -> [warpgroup, register, lane of 128]; what is
    a predicate becomes 32 equal bits, as ptxas 13.0 makes them."""
    if values.dtype == np.bool_:
        values = np.where(values, np.uint32(0xFFFFFFFF), np.uint32(0))
    warps, registers, _ = values.shape
    return values.reshape(-1, WARPS, registers, LANES).transpose(0, 2, 1, 3).reshape(warps // WARPS, registers, -1)


def _registers(words: Bits) -> Bits:
    """The inverse of `_words`: [warpgroup, register, lane of 128] -> [warp, register, lane]."""
    groups, registers, _ = words.shape
    return words.reshape(groups, registers, WARPS, LANES).transpose(0, 2, 1, 3).reshape(-1, registers, LANES)


def _uniform(machine: CtaState, form: WgmmaForm, values: NDArray[Any], warps: Warps) -> NDArray[Any]:
    """[warp, lane] -> [warpgroup]: the value of the first thread; others that differ are undefined."""
    each = values.reshape(len(warps) // WARPS, -1)
    uneven = int((each != each[:, :1]).any(axis=1).sum())
    if uneven:
        machine.note_undefined("uneven-operand", uneven, form.opcode)
    return each[:, 0]


def _a(instruction: Instruction, form: WgmmaForm) -> tuple[Locate, Matrices]:
    """Functions that locate and read (stored) A: [warpgroup, row, k]."""
    if not form.a_in_registers:
        major = MN if _transposed(instruction, "trans_a") else K
        return _shared(instruction, form, "a", (form.m, form.k_stored), form.a_type, major)
    read = reader(instruction["a"])
    return (
        lambda machine, warps: np.zeros((len(warps) // WARPS, 0), np.int64),
        lambda machine, warps, places: form.a.gather(_words(read(machine, warps))),
    )


def _b(instruction: Instruction, form: WgmmaForm) -> tuple[Locate, Matrices]:
    """Functions that locate and read B: [warpgroup, k, column]."""
    major = MN if _transposed(instruction, "trans_b") else K
    locate, read = _shared(instruction, form, "b", (form.n, form.k), form.b_type, major)
    return locate, lambda machine, warps, places: np.ascontiguousarray(read(machine, warps, places).transpose(0, 2, 1))


def _shared(
    instruction: Instruction, form: WgmmaForm, name: str, shape: tuple[int, int], element: ElementType, major: str
) -> tuple[Locate, Matrices]:
    """Functions that locate a matrix [warpgroup, row, k] by its descriptor, each warpgroup its own, and read it."""
    words, how = reader(instruction[name], 64), packing(element)
    lines, length = shape if major == K else shape[::-1]
    units = how.units(length)

    def locate(machine: CtaState, warps: Warps) -> Places:
        given = _uniform(machine, form, words(machine, warps)[:, 0], warps)
        kinds, which = np.unique(given, return_inverse=True)
        leaders = warps[::WARPS]
        places: Places = np.stack([unit_addresses_of(int(word), major, lines, units).ravel() for word in kinds])[which]
        return places + machine.own_window(leaders)  # a descriptor has 18 bits of an address: one's own CTA

    def read(machine: CtaState, warps: Warps, places: Places) -> Bits:
        leaders = warps[::WARPS]
        data, races = machine.shared.read(places, UNIT, machine.actors(leaders))
        raced(machine, races)
        machine.note(instruction, leaders, reads=region(machine, places, UNIT))
        patterns = how.unpack(data.reshape(len(places), lines, units, UNIT))[..., :length]
        return patterns if major == K else patterns.transpose(0, 2, 1)

    return locate, read


def _note_undefined(machine: CtaState, form: WgmmaForm, codes: Bits, selector: int) -> None:
    """Counts warpgroups with undefined metadata, or raises where the policy says so."""
    if form.metadata.legal(codes).all():
        return
    if machine.undefined == "raise":
        finding = first_metadata_finding(form, codes, selector)
        assert finding is not None
        raise finding
    for name, broken in metadata_findings(form, codes).items():
        if broken.any():
            machine.note_undefined(name, int(broken.any(axis=(-2, -1)).sum()), "")
