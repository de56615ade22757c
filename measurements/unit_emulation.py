"""Faults of the tensor core unit that other operands emulate: draws faults, and the operands that make a healthy unit
compute what the struck one would.

A healthy tensor core gives the same element of D as a struck one, if its operands make up for the fault:

    mux              the codes that stuck select lines make of those of the row
    multiplier       a zero in stored A for a product stuck at zero; a negative A for a wrong sign; where B is a power
                     of two, A with another bit of its fraction, or another exponent; of integers and bits, where B is
                     1, A with another bit
    term, adder      a product of its own, plus or minus a power of two, in a place of the step that holds zero: as much
                     as the struck bit adds
    selector_input   the instruction with the other selector
    output           the healthy result, of which the host changes the bit

All of it is computed from the operands, by Python integers (`tests.simulator.faults.unit_reference`), and nothing by
the code that disturbs sums. `measurements.unit_faults` runs the operands.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from isa.forms.mma import MmaForm, mma_forms
from isa.fragments.metadata import stored_columns
from isa.targets import parse_target
from isa.types import Bits, ElementType
from simulator.arithmetic.random_operands import draw
from simulator.execute.mma import sum_of
from simulator.faults import table
from simulator.faults.targets.mma import MmaTarget
from simulator.layout import Choice
from tests.simulator.faults.unit_reference import Unit, read, widened

TARGET = "sm_90a"
SEED = 20261130
CASES = (
    "normal numbers; integers: any",
    "B powers of two, one bit set; integers: B is 1",
    "in each step a place where A is 0 and B is 1",
    "one of eight elements of B infinite or NaN; integers: any",
)
PLAIN, POWERS, GAPS, SPECIAL = range(len(CASES))
OPERANDS = ("a", "b", "c", "e")


@dataclass
class Emulated:
    """One fault, and what makes up for it.

    Attributes:
        fault: the columns of its row that are not 0 (`lane2`: not -1).
        operands: matrices of the case, changed: a [m, stored], and codes [m, chunk] of a sparse form.
        selector: of the instruction that runs.
        after: the bits of D that the host changes, as (kept, inverted).
    """

    fault: dict[str, Any]
    operands: dict[str, Bits]
    selector: int
    after: tuple[int, int] = (0xFFFFFFFF, 0)


class Subject:
    """A form with a selector and its sets of operands.

    Attributes:
        matrices: by name, of each case.
        gaps: the stored column of each step where A of case `GAPS` is zero.
    """

    def __init__(self, form: MmaForm, selector: int) -> None:
        self.form, self.selector = form, selector
        self.how = sum_of(form, parse_target(TARGET), "chip")
        self.rng = np.random.default_rng([SEED, zlib.crc32(form.opcode.encode()), selector])
        drawn = MmaTarget(form.opcode, TARGET, Choice(selector), len(CASES), SEED)
        self.registers = {name: drawn.golden[name].copy() for name in OPERANDS if name in drawn.golden}
        self.matrices = {name: getattr(form, name).gather(self.registers[name]) for name in "abc"}
        if form.sparse:
            self.matrices["codes"] = form.metadata.gather(self.registers["e"][:, 0], selector)
        self.gaps = [int(self.rng.choice(columns)) for columns in self.how.steps]
        self._special()
        for name in "abc":
            self.registers[name] = getattr(form, name).scatter(self.matrices[name])

    def _special(self) -> None:
        """Makes the cases that are not drawn."""
        form, rng, b = self.form, self.rng, self.matrices["b"]
        kind, shape = form.b_type, b.shape[1:]
        if kind.is_float:
            exponent = rng.integers(kind.bias - 2, kind.bias + 3, shape, dtype=np.uint32)
            sign = rng.integers(0, 2, shape, dtype=np.uint32) << np.uint32(kind.exponent)
            b[POWERS] = (sign | exponent) << np.uint32(kind.fraction + kind.padding)
            infinity = ((1 << kind.exponent) - 1) << kind.fraction + kind.padding
            nan = infinity | (1 << kind.fraction) - 1 << kind.padding
            choices = np.array([infinity if kind.infinity else nan, nan], np.uint32)
            b[SPECIAL] = np.where(rng.random(shape) < 1 / 8, choices[rng.integers(0, 2, shape)], b[SPECIAL])
            normal = draw(rng, self.matrices["a"].shape[1:], form.a_type, "uniform", 1.0)
            normal |= np.uint32(1 << form.a_type.sign_bit - 2)  # no zero, nothing subnormal
            self.matrices["a"][POWERS] = normal
        else:
            b[POWERS] = 1
        for column in self.gaps:
            self.matrices["a"][GAPS][:, column] = 0
            rows = self.chunk_rows(column)
            b[GAPS][rows] = one(kind)

    def chunk_rows(self, column: int) -> list[int]:
        """The rows of B that a stored column may meet."""
        sparsity = self.how.sparsity
        if sparsity is None:
            return [column]
        first = column // sparsity.stored * sparsity.chunk
        return list(range(first, first + sparsity.chunk))

    def copy(self, case: int) -> dict[str, Bits]:
        return {name: self.matrices[name][case].copy() for name in ("a", "codes") if name in self.matrices}

    def element(self, case: int, row: int, column: int) -> tuple[list[int], list[int], int]:
        """The factors of an element of D, and C."""
        columns = np.arange(self.how.stored)
        if self.how.sparsity is not None:
            columns = stored_columns(self.matrices["codes"][case, row], self.how.sparsity)
        a, b, c = (self.matrices[name][case] for name in "abc")
        return a[row].tolist(), b[columns, column].tolist(), int(c[row, column])


def one(kind: ElementType) -> int:
    """The pattern of 1."""
    return kind.bias << kind.fraction + kind.padding if kind.is_float else 1


def power(kind: ElementType, exponent: int, *, negative: bool) -> int | None:
    """The pattern of plus or minus a power of two; None if the type has none."""
    if not kind.is_float:
        signed = kind.name.startswith("s")
        if not 0 <= exponent < kind.bits - signed + (negative and signed) or (negative and not signed):
            return None
        return (-(1 << exponent) if negative else 1 << exponent) & kind.mask
    field, highest = exponent + kind.bias, (1 << kind.exponent) - 2
    if field > highest or field < 1 - kind.fraction:
        return None
    size = field << kind.fraction if field >= 1 else 1 << kind.fraction + field - 1
    return (size | negative << kind.exponent + kind.fraction) << kind.padding


# Faults: what becomes of a word


def changed(model: str, word: int, mask: int, value: int = 0) -> int:
    """Written again, from the words of docs/faults.md."""
    becomes = {"flip": ~word, "stuck0": 0, "stuck1": -1, "set": value}[model]
    return word & ~mask | becomes & mask


def places(subject: Subject) -> tuple[int, int, int]:
    """A position of D, and its row and column."""
    form = subject.form
    row, column = int(subject.rng.integers(form.m)), int(subject.rng.integers(form.n))
    return row * form.n + column, row, column


def struck_columns(subject: Subject, word: int, step: int) -> list[int]:
    return [columns[word] for i, columns in enumerate(subject.how.steps) if step in (-1, i) and word < len(columns)]


def some_step(subject: Subject) -> int:
    steps = len(subject.how.steps)
    return int(subject.rng.integers(-1, steps)) if steps > 1 else -1


def some_word(subject: Subject) -> int:
    return int(subject.rng.integers(max(map(len, subject.how.steps))))


def mux(subject: Subject, case: int) -> Emulated:
    """Select lines stuck, or held at any code."""
    rng, sparsity = subject.rng, subject.how.sparsity
    assert sparsity is not None
    lane, row, _ = places(subject)
    model = str(rng.choice(["stuck0", "stuck1", "flip", "set"]))
    mask = 15 if model == "set" else int(rng.choice([1 << int(rng.integers(4)), int(rng.integers(1, 16))]))
    word, step, value = some_word(subject) // sparsity.stored, some_step(subject), int(rng.integers(16))
    operands = subject.copy(case)
    for column in struck_columns(subject, word * sparsity.stored, step):
        chunk = column // sparsity.stored
        operands["codes"][row, chunk] = changed(model, int(operands["codes"][row, chunk]), mask, value)
    fault = {"site": "mux", "model": model, "case": case, "word": word, "lane": lane, "mask": mask, "lane2": step}
    return Emulated(fault | ({"value": value} if model == "set" else {}), operands, subject.selector)


def zero(subject: Subject) -> Emulated | None:
    """A product stuck at zero."""
    how = subject.how
    if how.operation == "xor.popc":
        return None
    lane, row, _ = places(subject)
    word, step = some_word(subject), some_step(subject)
    operands = subject.copy(PLAIN)
    for column in struck_columns(subject, word, step):
        operands["a"][row, column] = 0
    mask = (1 << significand_bits(subject)) - 1
    fault = {"site": "multiplier", "model": "stuck0", "case": PLAIN, "word": word, "lane": lane, "mask": mask}
    return Emulated(fault | {"lane2": step}, operands, subject.selector)


def significand_bits(subject: Subject) -> int:
    """Bits of a product's significand; of integers and bits, of the product."""
    how = subject.how
    if how.a_type.is_float:
        return sum((how.through or kind).fraction + 1 for kind in (how.a_type, how.b_type))
    return 1 if how.operation else how.a_type.bits + how.b_type.bits


def sign(subject: Subject) -> Emulated | None:
    """A sign that is wrong, or stuck."""
    how, rng = subject.how, subject.rng
    if not how.a_type.is_float:
        return None
    lane, row, column = places(subject)
    word, step, model = some_word(subject), some_step(subject), str(rng.choice(["flip", "stuck0", "stuck1"]))
    operands = subject.copy(PLAIN)
    a, b, _ = subject.element(PLAIN, row, column)
    for stored in struck_columns(subject, word, step):
        before = read(a[stored], how.a_type)[0] ^ read(b[stored], how.b_type)[0]
        if changed(model, before, 1) & 1 != before:
            operands["a"][row, stored] ^= np.uint32(1 << how.a_type.sign_bit)
    fault = {"site": "multiplier", "model": model, "case": PLAIN, "word": word, "lane": lane, "mask": 1 << 31}
    return Emulated(fault | {"lane2": step}, operands, subject.selector)


def product_bit(subject: Subject, field: str) -> Emulated | None:
    """A bit of the significand or of the exponent of a product, where B is a power of two; of integers a bit of A,
    which is the product."""
    how, rng = subject.how, subject.rng
    lane, row, column = places(subject)
    word, step, model = some_word(subject), some_step(subject), str(rng.choice(["flip", "stuck0", "stuck1"]))
    operands = subject.copy(POWERS)
    a, b, _ = subject.element(POWERS, row, column)
    kind, wide = how.a_type, how.through or how.a_type
    fault = {"site": "multiplier", "model": model, "case": POWERS, "word": word, "lane": lane, "lane2": step}
    stored = struck_columns(subject, word, step)
    if not kind.is_float:
        if field == "exponent":
            return None
        bit = 0 if how.operation else int(rng.integers(kind.bits - kind.name.startswith("s")))
        for x in stored:
            y = b[x] if how.operation == "xor.popc" else 0
            operands["a"][row, x] = changed(model, a[x] ^ y, 1 << bit) & kind.mask ^ y
        return Emulated(fault | {"mask": 1 << bit}, operands, subject.selector)
    if field == "significand":
        bit = int(rng.integers(kind.fraction))
        for x in stored:
            operands["a"][row, x] = changed(model, a[x], 1 << bit + kind.padding) & 0xFFFFFFFF
        low = (how.through or how.b_type).fraction + wide.fraction - kind.fraction
        return Emulated(fault | {"mask": 1 << low + bit}, operands, subject.selector)
    bit = int(rng.integers(4))
    for x in stored:
        up, down = (
            read(widened(p, own, to), to)[2] - 1 + to.bias
            for p, own, to in ((a[x], kind, wide), (b[x], how.b_type, how.through or how.b_type))
        )
        by = changed(model, up + down, 1 << bit) - (up + down)
        exponent = (a[x] >> kind.padding + kind.fraction & (1 << kind.exponent) - 1) + by
        if not 1 <= exponent <= (1 << kind.exponent) - 2:
            return None
        operands["a"][row, x] = (a[x] + (by << kind.padding + kind.fraction)) & 0xFFFFFFFF
    return Emulated(fault | {"mask": 1 << 22 + bit}, operands, subject.selector)


def added(subject: Subject, site: str) -> Emulated | None:
    """A bit of a term, or of the output of an adder: what the bit adds, as a product of its own."""
    how, rng = subject.how, subject.rng
    if how.operation:
        return None
    lane, row, column = places(subject)
    step = int(rng.integers(len(how.steps)))
    used = len(how.steps[step])
    inputs = max(used, 32 * 8 // (how.through or how.a_type).bits)
    leaves = 1 << (inputs - 1).bit_length()
    place = int(rng.choice([*range(used), inputs] if site == "term" else leaves))
    factors = subject.element(GAPS, row, column)
    words: list[int] = []

    def look(word: int) -> int:
        words.append(word)
        return word

    unit = Unit(how, site, place, step, look)
    _ = unit.floats(*factors, [], []) if how.a_type.is_float else unit.integers(*factors)
    if not words:
        return None  # an adder none of whose inputs is used
    place_of_bit = unit.tops[step] - how.rule.fraction if how.rule is not None else 0
    model = str(rng.choice(["flip", "stuck0", "stuck1"]))
    gap, choices = subject.gaps[step], []
    for bit in range(how.rule.fraction + 1 if how.rule is not None else how.a_type.bits + how.b_type.bits - 1):
        by = changed(model, words[0], 1 << bit) - words[0]
        pattern = power(how.a_type, bit + place_of_bit, negative=by < 0) if by else 0
        if pattern is not None and (by or rng.random() < 0.1):
            choices.append((bit, pattern))
    if not choices:
        return None
    bit, pattern = choices[int(rng.integers(len(choices)))]
    operands = subject.copy(GAPS)
    operands["a"][row, gap] = pattern
    fault = {"site": site, "model": model, "case": GAPS, "word": 2 * place + bit // 32, "lane": lane}
    return Emulated(fault | {"mask": 1 << bit % 32, "lane2": step}, operands, subject.selector)


def selector(subject: Subject) -> Emulated | None:
    """A line of the selector's input, stuck."""
    count = subject.form.metadata.selectors if subject.form.sparse else 1
    if count < 2:
        return None
    rng = subject.rng
    model, mask = str(rng.choice(["flip", "stuck0", "stuck1"])), 1 << int(rng.integers((count - 1).bit_length()))
    other = changed(model, subject.selector, mask)
    fault = {"site": "selector_input", "model": model, "case": int(rng.integers(len(CASES))), "mask": mask}
    return Emulated(fault, subject.copy(fault["case"]), other)  # type: ignore[arg-type]


def output(subject: Subject) -> Emulated:
    """A bit of D."""
    rng, bits = subject.rng, subject.form.d_type.bits
    lane, _, _ = places(subject)
    model, mask, case = str(rng.choice(["flip", "stuck0", "stuck1"])), 1 << int(rng.integers(bits)), PLAIN
    after = (0xFFFFFFFF if model == "flip" else 0xFFFFFFFF & ~mask, 0 if model == "stuck0" else mask)
    fault = {"site": "output", "model": model, "case": case, "lane": lane, "mask": mask}
    return Emulated(fault, subject.copy(case), subject.selector, after)


def emulations(subject: Subject) -> Iterator[Emulated]:
    """The faults that are drawn for a form with a selector."""
    makes: list[Callable[[], Emulated | None]] = []
    if subject.form.sparse:
        makes += [lambda: mux(subject, PLAIN)] * 3 + [lambda: mux(subject, SPECIAL)] * 2
        makes += [lambda: selector(subject)]
    makes += [lambda: zero(subject)] * 2 + [lambda: sign(subject)]
    makes += [lambda: product_bit(subject, "significand")] * 2 + [lambda: product_bit(subject, "exponent")]
    makes += [lambda: added(subject, "term")] * 2 + [lambda: added(subject, "adder")] * 3 + [lambda: output(subject)]
    for make in makes:
        found = next((one for one in (make() for _ in range(8)) if one is not None), None)
        if found is not None:
            yield found


def subjects() -> Iterator[Subject]:
    """Every form of the chip whose sum a tensor core computes, with each of its selectors."""
    for form in mma_forms().values():
        if form.a_type.bits < 64 and form.blocks == 1 and form.supports(parse_target(TARGET)):
            for selector in range(form.metadata.selectors if form.sparse else 1):
                yield Subject(form, selector)


def as_rows(faults: list[dict[str, Any]]) -> table.Faults:
    """Faults as rows of a list, numbered."""
    rows = table.empty(len(faults))
    rows["id"] = np.arange(len(faults))
    named = {"site": table.SITES, "model": table.MODELS}
    for index, fault in enumerate(faults):
        for name, value in fault.items():
            rows[name][index] = named[name].index(value) if name in named else value
    return rows
