"""Text to instruction and back; every way in which text can be wrong; and what ptxas says about the same texts."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa
from isa.forms.record import Form
from isa.forms.table import KERNEL_ROWS, plain_forms
from isa.ptx.instruction import Address, Guard, Immediate, Register, Sink, Vector
from tests.golden.compare_ptxas import judged, takes, verdicts
from tests.support.cases import PROGRAMS, examples, over
from tests.support.paths import TESTS
from tests.support.ptxas import PTXAS, taken
from tests.support.row_texts import legal_text, operand_texts, sampled_forms

FORMS: dict[str, Form] = {**isa.mma_forms(), **plain_forms()}
VERDICTS = TESTS / "golden" / "ptxas_mma_sp.csv.gz"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
MMA_SP = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
V4 = "{%r0, %r1, %r2, %r3}"
V8 = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
OPERANDS = "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11}, {%r12, %r13, %r14, %r15}, %r16, 1;"
F64 = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
F64_OPERANDS = "{%fd0, %fd1}, {%fd2}, {%fd3}, {%fd4, %fd5};"
B1 = "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc"
B1_OPERANDS = "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r0, %r1, %r2, %r3};"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x2.shared.b16"


# Legal text


@over("opcode", FORMS, distinct=lambda opcode: (FORMS[opcode].name, FORMS[opcode].roles))
def test_round_trip(opcode: str) -> None:
    """`str` gives back the canonical text, and that decodes to the same instruction; reads and writes are those of the
    text."""
    form, generator = FORMS[opcode], random.Random(opcode)
    for _ in range(4):
        operands = operand_texts(form, generator.randrange)
        text = f"{opcode} {', '.join(operands)}".rstrip() + ";"
        instruction = isa.decode(text, ptx=form.since_ptx)
        assert instruction.form in (form, form.with_operands(tuple(instruction.by_role)))
        assert isa.decode(str(instruction), ptx=form.since_ptx) == instruction
        assert str(instruction).replace("+0]", "]") == text.replace("+0]", "]").replace("-0,", "0,").replace(
            "-0;", "0;"
        )
        names = [
            [word.strip("{}[],!") for word in operand.replace("+", " ").replace("|", " ").split() if "%" in word]
            for operand in operands
        ]
        written = [name for role, found in zip(form.roles, names, strict=False) if role.output for name in found]
        read = [name for role, found in zip(form.roles, names, strict=False) if not role.output for name in found]
        assert list(instruction.writes) == written
        assert list(instruction.reads) == read


@over("form", [f for f in isa.mma_forms().values() if f.sparse], ids=lambda form: form.opcode)
def test_every_selector(form: isa.MmaForm) -> None:
    """Legal ones decode; the next is refused, but for the form that ptxas lets through, which is marked undefined."""
    operands = operand_texts(form, lambda n: 0)
    for selector in range(5):
        head, rest = f"{form.opcode} {', '.join(operands[:5])}, ", ", ".join(["", *operands[6:]])
        text = f"{head}{selector}{rest};"
        if selector < form.metadata.selectors:
            found = isa.decode(text, ptx=form.since_ptx)
            assert (found.selector, found.undefined) == (selector, ())
        elif selector < 4 and ".m16n8k32.row.col.f32.f16.f16.f32" in form.opcode:
            assert isa.decode(text).undefined == ("selector-out-of-range",)
        else:
            with pytest.raises(isa.IsaError, match=f"selector {selector} is out of range") as caught:
                isa.decode(text, ptx=form.since_ptx)
            assert caught.value.position == len(head)


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.sp.m16n8k32.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32.sp",
        "mma.aligned.sync.m16n8k32.sp.row.col.f32.f16.f16.f32",
        "mma.f32.f16.f16.f32.row.col.m16n8k32.aligned.sync.sp",
    ],
)
def test_qualifier_order(opcode: str) -> None:
    """ptxas does not care, and CUTLASS writes `.sp` behind `.aligned`."""
    assert str(isa.decode(f"{opcode} {OPERANDS}", "sm_80")) == f"{MMA_SP} {OPERANDS}"


def test_qualifier_order_as_cutlass_writes_it() -> None:
    text = f"mma.sync.aligned.sp::ordered_metadata.m16n8k32.row.col.f32.f16.f16.f32 {OPERANDS}"
    assert isa.decode(text).form.opcode == "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    dense = "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.u8.s32"
    assert isa.mma_form("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32.satfinite").opcode == dense


@over(
    ("expression", "value"),
    [
        ("0x0", 0), ("0x0+1", 1), ("1U", 1), ("0b1", 1), ("01", 1), ("(1)", 1), ("2-1", 1), ("~0 & 1", 1),
        ("3 >> 1", 1), ("1 << 0", 1), ("!0", 1),
        ("!7", 0), ("7 / 4", 1), ("5 % 2", 1), ("-(-1)", 1), ("+1", 1), ("1 | 0", 1), ("3 ^ 2", 1),
        ("2 * 3 - 5", 1), ("0xFFFFFFFFFFFFFFFF + 2", 1),
        ("-7 / 7 + 2", 1), ("1 + 2 * 0", 1), ("4 >> 1 + 1", 1), ("1 | 2 & 1", 1), ("0XA - 9", 1),
    ],
)  # fmt: skip
def test_selector_expressions(expression: str, value: int) -> None:
    assert isa.decode(f"{MMA_SP} {OPERANDS[:-2]}{expression};").selector == value


@over(
    ("expression", "value"),
    [
        ("-7 / 2", -3), ("-7 % 2", -1), ("7 % -2", 1), ("-7 >> 1", -4), ("1 << 63", -(2**63)),
        ("0xFFFFFFFFFFFFFFFF", -1), ("017", 15), ("0b101", 5),
        ("~5", -6), ("-2 * 3", -6), ("1 + 2 << 3", 24), ("12 ^ 10 | 1", 7), ("(1 + 2) * (3 + 4)", 21), ("0xffU", 255),
        ("0x7fffffffffffffff + 1", -(2**63)),
    ],
)  # fmt: skip
def test_constant_expressions(expression: str, value: int) -> None:
    """PTX ISA 4.6: 64 bits, C's operators and precedence; division goes toward zero."""
    style = "hexadecimal" if expression.startswith("0x") and value >= 0 else "decimal"
    assert isa.decode(f"add.s32 %r0, %r1, {expression};")["b"] == Immediate(value, style)


def test_comments_and_line_breaks() -> None:
    plain = isa.decode(f"{MMA_SP} {OPERANDS}")
    spread = f"""/* sparse */ {MMA_SP} // the opcode
        {{%r0, %r1, /* two more */ %r2,\t%r3}},
        {{ %r4,%r5,%r6,%r7 }} , // A
        {{%r8, %r9, %r10, %r11}}, {{%r12, %r13, %r14, %r15}},
        {{%r16}}, 1 // selector
        ; // end"""
    assert isa.decode(spread) == plain
    assert isa.decode(spread.replace("\n", "\r\n")) == plain
    assert isa.decode(f"{MMA_SP} {OPERANDS[:-1]}") == plain, "the semicolon may be left out"


@pytest.mark.parametrize(
    ("guard", "name", "negated"), [("@%p0", "%p0", False), ("@!%p3", "%p3", True), ("@ ! %p1", "%p1", True)]
)
def test_guards(guard: str, name: str, negated: bool) -> None:
    instruction = isa.decode(f"{guard} add.s32 %r0, %r1, 1;")
    assert instruction.guard == Guard(Register(name), negated)
    assert isa.decode(str(instruction)) == instruction
    assert instruction.reads == ("%r1",)


def test_sinks_and_constants_of_mma() -> None:
    """ptxas takes `_` in D and constants of the right sort in C."""
    instruction = isa.decode(f"{MMA_SP} {{%r0, _, %r2, _}}, {V4}, {V4}, {{0f00000000, %r5, %r1, 0f3F800000}}, %r16, 0;")
    assert instruction["d"] == Vector((Register("%r0"), Sink(), Register("%r2"), Sink()))
    assert instruction["c"] == Vector(
        (Immediate(0, "float"), Register("%r5"), Register("%r1"), Immediate(0x3F800000, "float"))
    )
    assert (instruction.writes, instruction.reads[-3:]) == (("%r0", "%r2"), ("%r5", "%r1", "%r16"))
    integers = isa.decode(
        f"mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {V4}, {V4}, {V4}, {{0, -1, 0x10, %r1}}, %r16, 0;"
    )
    assert integers["c"] == Vector((Immediate(0), Immediate(-1), Immediate(16, "hexadecimal"), Register("%r1")))
    assert isa.decode(str(integers)) == integers


def test_constants_and_rounding_of_f64() -> None:
    """A constant is the pattern of an f64, as written; `.rn` is what no modifier means."""
    instruction = isa.decode(
        f"{F64} {F64_OPERANDS.replace('%fd3', '0d3ff0000000000000').replace('%fd4', '0D8000000000000000')}", "sm_80"
    )
    assert instruction["b"] == Vector((Immediate(0x3FF0000000000000, "double"),))
    assert instruction["c"] == Vector((Immediate(1 << 63, "double"), Register("%fd5")))
    assert isa.decode(str(instruction)) == instruction
    assert "0d3FF0000000000000" in str(instruction)
    named = {rounding: isa.mma_form(f"{F64[:31]}.{rounding}{F64[31:]}") for rounding in ("rn", "rz", "rm", "rp")}
    assert {rounding: form.rounding for rounding, form in named.items()} == {rounding: rounding for rounding in named}
    assert isa.mma_form(F64) is named["rn"]
    assert isa.mma_form(MMA).rounding == ""


def test_reads_and_writes_of_loads_and_stores() -> None:
    load, store = (
        isa.decode("ld.shared.v2.b32 {%r4, %r5}, [%r4+8];"),
        isa.decode("st.shared.v2.b32 [%r4+-8], {%r4, %r5};"),
    )
    assert (load.reads, load.writes) == (("%r4",), ("%r4", "%r5"))
    assert (store.reads, store.writes) == (("%r4", "%r4", "%r5"), ())
    assert (load["address"], store["address"]) == (Address(Register("%r4"), 8), Address(Register("%r4"), -8))
    with pytest.raises(KeyError):
        _ = load["b"]


NAMES = st.from_regex(r"[A-Za-z$%][A-Za-z0-9_$]{0,12}", fullmatch=True).filter(lambda name: name != "%")


@given(NAMES, NAMES, st.integers(-(2**63), 2**63 - 1), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_names_and_immediates(first: str, second: str, value: int, hexadecimal: bool) -> None:
    literal = f"{value:#x}" if hexadecimal else str(value)
    instruction = isa.decode(f"add.s32 {first}, {second}, {literal};")
    assert instruction.operands == (Register(first), Register(second), instruction["b"])
    assert isinstance(instruction["b"], Immediate)
    assert instruction["b"].value == value
    assert isa.decode(str(instruction)) == instruction


@given(NAMES, st.integers(-(2**31), 2**31 - 1), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_addresses(base: str, offset: int, spaced: bool) -> None:
    plus = " + " if spaced else "+"
    text = f"[{base}{plus}{offset}]"
    instruction = isa.decode(f"ld.shared.b32 %r0, {text};")
    assert instruction["address"] == Address(Register(base), offset)
    assert isa.decode(str(instruction)) == instruction


@given(st.sampled_from(sorted(FORMS)), st.randoms(use_true_random=False))
@settings(max_examples=examples(200), deadline=None)
def test_generated_texts(opcode: str, generator: random.Random) -> None:
    """Spaces and line breaks between tokens change nothing."""
    text = legal_text(FORMS[opcode], generator.randrange)
    head, _, rest = text.partition(" ")
    spread = "".join(
        generator.choice(("", " ", "\n", "\t/**/ ")) + mark if mark in "{}[],;+" else mark
        for mark in rest.replace(" ", "")
    )
    assert isa.decode(f"{head}\n{spread}", ptx="9.1") == isa.decode(text, ptx="9.1")


@over("form", FORMS.values(), ids=FORMS, distinct=lambda form: (form.name, form.since_target))
def test_targets(form: Form) -> None:
    """Each form is refused below its first target, with that target in the message, and taken from there on."""
    everywhere = tuple(role for role in form.roles if role.name not in dict(form.narrowed))
    text = legal_text(replace(form, roles=everywhere), lambda n: 0)
    for number in (70, 75, 80, 86, 89, 90):
        if number >= form.since_target:
            assert isa.decode(text, f"sm_{number}").form.opcode == form.opcode
        else:
            with pytest.raises(
                isa.IsaError, match=f"not available on sm_{number}: it needs sm_{form.since_target}"
            ) as caught:
                isa.decode(text, f"sm_{number}")
            assert caught.value.position == 0


# Illegal text: '»' marks the place that the error must point at; nothing marked: no place.

WRONG: list[tuple[str, str | None, str, tuple[str, ...]]] = [
    ("empty", None, "»", ("no instruction",)),
    ("blank", None, "  // nothing\n»", ("no instruction",)),
    ("punctuation", None, "»{%r0};", ("name was expected", "mma")),
    ("unknown", None, "»foo.sync %r0;", ("unknown instruction 'foo'", "ldmatrix")),
    (
        "unknown but near",
        None,
        "»ldmatrx.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];",
        ("unknown instruction", "did you mean 'ldmatrix'"),
    ),
    ("capitals", None, "»MMA.sp.sync;", ("unknown instruction 'MMA'",)),
    ("wmma", None, "»wmma.mma.sync.aligned.m16n16k16.row.col.f32.f32 %r0;", ("unknown instruction", "mma")),
    ("no sync", None, f"»{MMA_SP.replace('.sync', '')} {OPERANDS}", (".sync", "mma{.sp}.sync.aligned")),
    ("no aligned", None, f"»{MMA_SP.replace('.aligned', '')} {OPERANDS}", (".aligned",)),
    ("no shape", None, f"»{MMA_SP.replace('.m16n8k32', '')} {OPERANDS}", ("shape", "m16n8k32")),
    ("no layout", None, f"»{MMA_SP.replace('.row.col', '')} {OPERANDS}", ("layout", ".row.col")),
    ("wrong layout", None, f"{MMA_SP.replace('.row.col', '.»col.row')} {OPERANDS}", ("layouts 'col.row'", ".row.col")),
    ("three layouts", None, f"{MMA_SP.replace('.row', '.»row.row')} {OPERANDS}", ("layouts", ".row.col")),
    ("three types", None, f"»{MMA_SP.removesuffix('.f32')} {OPERANDS}", ("3 element types", "four")),
    ("five types", None, f"»{MMA_SP}.f32 {OPERANDS}", ("5 element types",)),
    (
        "unknown qualifier",
        None,
        f"mma.sp.»fast.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {OPERANDS}",
        ("'.fast'", "satfinite"),
    ),
    ("unknown type", None, f"mma.sp.sync.aligned.m16n8k32.row.col.f32.»f128.f128.f32 {OPERANDS}", ("'.f128'", "bf16")),
    (
        "sparse f64",
        None,
        f"mma.sp.sync.aligned.m16n8k32.row.col.f32.»f64.f64.f32 {OPERANDS}",
        ("no such form multiplies f64 x f64", "bf16 x bf16"),
    ),
    (
        "rounding of f16",
        None,
        f"mma.sync.aligned.m16n8k16.row.col.»rz.f32.f16.f16.f32 {OPERANDS}",
        ("does not go with .rz", "only f64"),
    ),
    ("two roundings", None, f"{F64[:31]}.rz.»rm{F64[31:]} {F64_OPERANDS}", ("contradicts '.rz'",)),
    ("rna", None, f"{F64[:31]}.»rna{F64[31:]} {F64_OPERANDS}", ("'.rna'", "did you mean '.rn'")),
    ("f64 by columns", None, f"{F64[:24]}»col.col{F64[31:]} {F64_OPERANDS}", ("layouts 'col.col'", ".row.col")),
    (
        "f64 in f32 registers",
        None,
        f"{F64} {{%fd0, %fd1}}, {{»%f2}}, {{%fd3}}, {{%fd4, %fd5}};",
        ("operand a cannot be %f2", "%fd0"),
    ),
    (
        "f64 and a predicate",
        None,
        f"{F64} {{%fd0, %fd1}}, {{%fd2}}, {{»%p3}}, {{%fd4, %fd5}};",
        ("operand b cannot be %p3, a predicate",),
    ),
    (
        "f64 in one of 32 bits",
        None,
        f"{F64} {{%fd0, %fd1}}, {{%fd2}}, {{%fd3}}, {{%fd4, »%r5}};",
        ("operand c cannot be %r5", "64-bit"),
    ),
    ("f64 scalar", None, f"{F64} {{%fd0, %fd1}}, »%fd2, {{%fd3}}, {{%fd4, %fd5}};", ("operand a is a vector of 1",)),
    (
        "b1 without an operation",
        None,
        f"»{B1.removesuffix('.xor.popc')} {B1_OPERANDS}",
        ("no bit operation", ".xor.popc, .and.popc"),
    ),
    (
        "b1 counted first",
        None,
        f"{B1.removesuffix('xor.popc')}»popc.xor {B1_OPERANDS}",
        ("does not go with .popc.xor", ".xor.popc"),
    ),
    ("b1 or", None, f"{B1.removesuffix('xor.popc')}»or.popc {B1_OPERANDS}", ("'.or' is not a qualifier",)),
    (
        "b1 saturated",
        None,
        f"{B1.replace('.s32.b1', '.»satfinite.s32.b1')} {B1_OPERANDS}",
        ("does not go with .satfinite",),
    ),
    (
        "xor of integers",
        None,
        f"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32.»xor.popc {B1_OPERANDS}",
        ("does not go with .xor.popc",),
    ),
    (
        "too old for and",
        "sm_75",
        f"»{B1.replace('m16', 'm8').replace('xor', 'and')} {B1_OPERANDS}",
        ("not available on sm_75", "sm_80"),
    ),
    (
        "one layout",
        None,
        f"mma.sync.aligned.m8n8k4.»col.f32.f16.f16.f32 {OPERANDS}",
        ("layouts 'col'", "row.row, .row.col, .col.row, .col.col"),
    ),
    (
        "D f16 of C f32",
        None,
        f"mma.sync.aligned.m8n8k4.col.col.»f16.f16.f16.f32 {OPERANDS}",
        ("D f16, C f32", "D f32, C f16"),
    ),
    ("too old for f64", "sm_75", f"»{F64} {F64_OPERANDS}", ("not available on sm_75", "sm_80")),
    (
        "too old for m16 of f64",
        "sm_89",
        f"»{F64.replace('m8n8k4', 'm16n8k4')} {F64_OPERANDS}",
        ("not available on sm_89", "sm_90"),
    ),
    (
        "twice aligned",
        None,
        f"mma.sp.sync.aligned.»aligned.m16n8k32.row.col.f32.f16.f16.f32 {OPERANDS}",
        ("repeats", ".aligned once"),
    ),
    (
        "two shapes",
        None,
        f"mma.sp.sync.aligned.m16n8k32.»m16n8k16.row.col.f32.f16.f16.f32 {OPERANDS}",
        ("contradicts", "m16n8k32"),
    ),
    (
        "two spellings",
        None,
        f"mma.sp.»sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {OPERANDS}",
        ("contradicts '.sp'",),
    ),
    (
        "wrong shape",
        None,
        f"mma.sp.sync.aligned.»m16n8k64.row.col.f32.f16.f16.f32 {OPERANDS}",
        ("no shape m16n8k64", "m16n8k16", "m16n8k32"),
    ),
    (
        "wrong pair",
        None,
        f"mma.sp.sync.aligned.m16n8k32.row.col.f32.»f16.bf16.f32 {OPERANDS}",
        ("no such form multiplies f16 x bf16", "bf16 x bf16"),
    ),
    (
        "wrong accumulator",
        None,
        f"mma.sp.sync.aligned.m16n8k32.row.col.»f16.bf16.bf16.f16 {OPERANDS}",
        ("does not accumulate", "D f32, C f32"),
    ),
    (
        "mixed accumulators",
        None,
        f"mma.sp.sync.aligned.m16n8k32.row.col.»f16.f16.f16.f32 {OPERANDS}",
        ("does not accumulate D f16, C f32", "D f32, C f32"),
    ),
    (
        "satfinite on floats",
        None,
        f"mma.sp.sync.aligned.m16n8k32.row.col.»satfinite.f32.f16.f16.f32 {OPERANDS}",
        ("no .satfinite", "integer"),
    ),
    (
        "few in d",
        None,
        f"{MMA_SP} »{{%r0, %r1}}, {V4}, {V4}, {V4}, %r9, 0;",
        ("operand d has 2 registers", "4 registers"),
    ),
    (
        "many in d",
        None,
        f"{MMA_SP} »{{%r0, %r1, %r2, %r3, %r4}}, {V4}, {V4}, {V4}, %r9, 0;",
        ("operand d has 5", "4 registers"),
    ),
    ("few in a", None, f"{MMA_SP} {V4}, »{{%r0}}, {V4}, {V4}, %r9, 0;", ("operand a has 1", "4 registers")),
    ("few in b", None, f"{MMA_SP} {V4}, {V4}, »{{%r0, %r1, %r2}}, {V4}, %r9, 0;", ("operand b has 3", "4 registers")),
    ("few in c", None, f"{MMA_SP} {V4}, {V4}, {V4}, »{{%r0, %r1}}, %r9, 0;", ("operand c has 2", "4 registers")),
    ("scalar for vector", None, f"{MMA_SP} {V4}, {V4}, »%r0, {V4}, %r9, 0;", ("operand b is a vector of 4",)),
    ("empty vector", None, f"{MMA_SP} {{»}}, {V4}, {V4}, {V4}, %r9, 0;", ("register was expected in operand d", "'}'")),
    (
        "vector of metadata",
        None,
        f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, »{{%r8,%r7,%r9}}, 0;",
        ("operand e has 3 registers", "1 register"),
    ),
    (
        "metadata immediate",
        None,
        f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, »0x44444444, 0;",
        ("operand e is a register", "%r0"),
    ),
    (
        "metadata special",
        None,
        f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, »%laneid, 0;",
        ("operand e cannot be the special register", "mov.u32"),
    ),
    ("metadata missing", None, f"{MMA_SP} {V4}, {V4}, {V4}, {V4}»;", ("operand e is missing", "found 4")),
    (
        "selector register",
        None,
        f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9, »%r10;",
        ("operand f must be a constant", "%r10"),
    ),
    ("selector missing", None, f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9»;", ("operand f is missing",)),
    ("selector 4", None, f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9, »4;", ("selector 4 is out of range",)),
    ("selector -1", None, f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9, »-1;", ("selector -1 is out of range",)),
    (
        "selector of k64",
        None,
        f"mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {V4}, {V4}, {V4}, {V4}, %r9, »1;",
        ("selector 1 is", "legal: 0 "),
    ),
    (
        "constant in a",
        None,
        f"{MMA_SP} {V4}, {{»0f00000000, %r1, %r2, %r3}}, {V4}, {V4}, %r9, 0;",
        ("operand a takes no constant like '0f00000000'",),
    ),
    (
        "sink in b",
        None,
        f"{MMA_SP} {V4}, {V4}, {{%r0, »_, %r2, %r3}}, {V4}, %r9, 0;",
        ("only for destinations", "operand b"),
    ),
    (
        "selector to a dense mma",
        None,
        f"{MMA} {V4}, {V4}, {{%r0, %r1}}, {V4}», %r9, 0;",
        ("too many operands", "has 4"),
    ),
    ("too many operands", None, "add.s32 %r0, %r1, %r2», %r3;", ("too many operands", "add.s32 has 3")),
    ("too few operands", None, "add.s32 %r0, %r1»;", ("operand b is missing", "found 2")),
    ("no operands", None, "add.s32»;", ("operand d is missing", "found 0")),
    ("no comma", None, "add.s32 %r0, %r1 »%r2;", ("',' expected", "operand b", "'%r2'")),
    ("trailing text", None, "add.s32 %r0, %r1, %r2; »ret;", ("one instruction was expected", "'ret'")),
    ("two semicolons", None, "add.s32 %r0, %r1, %r2;»;", ("one instruction was expected",)),
    ("no separator", None, "add.s32 %r0, %r1, %r2 »%r3;", ("one instruction was expected", "'%r3'")),
    ("open brace", None, f"{LDMATRIX} {{%r0, %r1, »[%r2];", ("register was expected", "'['")),
    ("close brace", None, f"{LDMATRIX} {{%r0, %r1}}»}}, [%r2];", ("',' expected", "'}'")),
    ("open bracket", None, "ld.shared.b32 %r0, [%r1»;", ("']' expected", "address")),
    ("no bracket", None, "ld.shared.b32 %r0, »%r1;", ("'[' expected", "'%r1'")),
    ("empty address", None, "ld.shared.b32 %r0, [»];", ("begins with a register", "[%r0+16]")),
    ("two registers in an address", None, "ld.shared.b32 %r0, [%r1+»%r2];", ("constant was expected", "'%r2'")),
    ("scaled address", None, "ld.shared.b32 %r0, [%r1 »* 4];", ("']' expected",)),
    ("constant destination", None, "add.s32 »5, %r1, %r2;", ("operand d is a register", "'5'")),
    ("special destination", None, "mov.u32 »%laneid, %r2;", ("operand d cannot be the special register",)),
    ("vector source", None, "add.s32 %r0, »{%r1}, %r2;", ("constant was expected", "'{'")),
    ("strange character", None, "add.s32 %r0, %r1, »#2;", ("unexpected character '#'",)),
    ("not ASCII", None, "add.s32 %r0, %r1, »²;", ("unexpected character",)),
    ("bad octal", None, "add.s32 %r0, %r1, »08;", ("octal", "0 to 7")),
    ("more than 64 bits", None, "add.s32 %r0, %r1, »99999999999999999999;", ("64 bits",)),
    ("division by zero", None, "add.s32 %r0, %r1, 1 »/ 0;", ("division by zero",)),
    ("remainder by zero", None, "add.s32 %r0, %r1, 1 »% (2 - 2);", ("division by zero",)),
    ("half an expression", None, "add.s32 %r0, %r1, 1 +»;", ("constant was expected", "';'")),
    ("open parenthesis", None, "add.s32 %r0, %r1, (1 + 2»;", ("')' expected",)),
    ("ldmatrix too few", None, f"{LDMATRIX} »{{%r0}}, [%r2];", ("operand d has 1", "2 registers")),
    (
        "ldmatrix x3",
        None,
        "ldmatrix.sync.aligned.m8n8.»x3.shared.b16 {%r0, %r1, %r2}, [%r3];",
        ("'.x3'", "ldmatrix.sync.aligned.m8n8.x"),
    ),
    (
        "ldmatrix without a size",
        None,
        "»ldmatrix.sync.aligned.m8n8.shared.b16 {%r0}, [%r3];",
        ("lacks .x1 or .x2 or .x4", "x1.shared.b16"),
    ),
    ("no such space", None, "ld.»locale.b32 %r0, [%r1];", ("'.locale'", "ld.local.b32")),
    ("global load by 32 bits", None, "ld.global.b32 %r0, [»%r1];", ("operand address cannot be %r1", "%rd0")),
    (
        "copy fills more",
        None,
        "»cp.async.ca.shared.global [%r0], [%rd0], 8, 9;",
        ("a copy of 8 bytes cannot fill 9", "0 to 8"),
    ),
    ("load of 128 bits", None, "ld.shared.b128 »%r0, [%r1];", ("a 32-bit register", ".b128")),
    ("barrier 16", None, "bar.sync »16;", ("operand a 16 is out of range", "0 to 15")),
    ("guard without register", None, "@»5 add.s32 %r0, %r1, %r2;", ("predicate", "@%p0")),
    ("guard alone", None, "@%p0 »", ("no instruction",)),
    ("too old", "sm_75", f"»{MMA_SP} {OPERANDS}", ("not available on sm_75", "sm_80")),
    (
        "FP8 too old",
        "sm_86",
        f"»mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32 {V4}, {V4}, {V4}, {V4}, %r9, 0;",
        ("sm_86", "sm_89"),
    ),
    ("unknown target", "sm_91", f"»{MMA_SP} {OPERANDS}", ("unknown target 'sm_91'", "sm_90")),
    (
        "no such variant",
        "sm_80a",
        f"»{MMA_SP} {OPERANDS}",
        ("unknown target 'sm_80a'", "no 'a' variant", "legal: sm_80"),
    ),
    ("not a target", "hopper", f"»{MMA_SP} {OPERANDS}", ("unknown target 'hopper'", "sm_90")),
]


@over(("target", "marked", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_text(target: str | None, marked: str, words: tuple[str, ...]) -> None:
    text = marked.replace("»", "")
    with pytest.raises(isa.IsaError) as caught:
        isa.decode(text, target)
    error = caught.value
    assert error.position == marked.find("»"), f"{error}, at {text[error.position :]!r}"
    assert error.text == (text if "target" not in str(error) or "available" in str(error) else target)
    for word in words:
        assert word in str(error)
    assert "\n" not in str(error)
    assert f"column {error.position + 1}" in str(error)


@over("form", isa.mma_forms().values(), ids=lambda form: form.opcode, distinct=lambda form: form.roles)
def test_every_register_count(form: isa.MmaForm) -> None:
    """One register too many or too few in any vector is refused where the vector begins."""
    for position, change in product(range(4), (-1, 1)):
        operands = operand_texts(form, lambda n: 0)
        names = operands[position].strip("{}").split(", ")
        names = names[:-1] if change < 0 else [*names, *names[-1:] * (1 + form.roles[position].spare)]
        if not names:
            continue
        operands[position] = "{" + ", ".join(names) + "}"
        text = f"{form.opcode} {', '.join(operands)};"
        with pytest.raises(isa.IsaError, match=f"operand {'dabc'[position]} has {len(names)} register") as caught:
            isa.decode(text, ptx=form.since_ptx)
        assert caught.value.position == len(form.opcode) + 1 + sum(len(o) + 2 for o in operands[:position])


def test_long_text() -> None:
    with pytest.raises(isa.IsaError, match="100000 characters"):
        isa.decode("x" * 100_000)


def test_deep_expression() -> None:
    for text in ("(" * 3000 + "1" + ")" * 3000, "-" * 3000 + "1", "~" * 50_000):
        with pytest.raises(isa.IsaError, match="nested too deeply"):
            isa.decode(f"add.s32 %r0, %r1, {text};")


# ptxas 13.0


def test_recorded_verdicts() -> None:
    """On every recorded text and target the decoder agrees with ptxas: here every eighth row is judged, the others
    where README's evidence is (tests/whole/test_readme.py)."""
    found = judged(verdicts()[::8])
    assert not found.disagreements
    assert found.taken > 150
    assert found.refused > 7_500


def ptxas_takes(text: str, target: str) -> bool:
    return taken([text], target)[0]


F16_SP = "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4, %r5}"

# Fine print of ptxas 13.0: (text, whether it takes it).
FINE_PRINT: list[tuple[str, bool]] = [
    (f"{MMA_SP} {V4}, {V4}, {V4}, {{0, 0, 0, 0}}, %r16, 0;", False),
    (f"{MMA_SP} {V4}, {V4}, {V4}, {{0f00000000, 0, 0, 0}}, %r16, 0;", False),
    (f"{F16_SP}, {{0, 0}}, %r6, 0;", False),
    (f"{F16_SP}, {{0f00000000, 0f00000000}}, %r6, 0;", False),
    (f"mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {V4}, {V4}, {V4}, {{0f00000000, 0, 0, 0}}, %r16, 0;", False),
    (f"{F16_SP}, {{%r0, %r1}}, %r6, 0f00000000;", False),
    (f"{MMA_SP} {{_, _, _, _}}, {V4}, {V4}, {V4}, %r16, 0;", False),
    ("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0, %r1}, %r2, %r4, {%r0, %r1};", False),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r1];", False),
    ("mov.u32 %r0, _;", False),
    ("add.s32 %r0, %laneid, %r1;", False),
    ("shl.b32 %r0, %r1, %laneid;", False),
    ("mad.lo.u32 %r0, %laneid, 2, 3;", False),
    ("mov.f32 %r0, %laneid;", False),
    ("mov.f32 %r0, 5;", False),
    ("mov.u32 %r0, 0f3f800000;", False),
    ("add.s32 %r0, %r1, 0f3f800000;", False),
    ("add.s32 {%r0}, %r1, %r2;", False),
    ("ld.shared.b32 _, [%r1];", False),
    ("ld.shared.v2.b32 {_, _}, [%r1];", False),
    ("ld.shared.b32 %r0, [%r1-4];", False),
    ("ld.shared.b32 %r0, [16];", False),
    ("bar.sync 0, 63;", False),
    ("st.shared.b32 [%r0], 5;", True),
    ("st.shared.v2.b32 [%r0], {5, %r1};", True),
    ("mov.f32 %r0, 1.5;", True),
    ("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%r0, %r2}, [%r1];", True),
    ("ldmatrix.sync.aligned.m8n8.x2.shared.trans.b16 {%r0, %r2}, [%r1];", True),
    ("ld.v2.shared.u8 {%r0, %r3}, [%r1];", True),
    ("barrier.aligned.sync 0;", True),
    ("add.s32 %r0, %r1, 1 ? 2 : 3;", True),
    ("add.s32 %r0, %r1, 1 < 2;", True),
    ("add.s32 %r0, %r1, 1 && 2;", True),
    ("add.s32 %r0, %r1, 1 << 64;", True),
    ("add .s32 %r0, %r1, %r2;", True),
    ("bar.sync.sync 0;", True),
    ("ldmatrix.sync.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];", True),
    ("ldmatrix.sync.aligned.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];", False),
    (f"{MMA_SP.replace('.sync', '.sync.sync')} {OPERANDS}", True),
    (
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, {%r0, "
            "%r1, %r2, %r3};"
        ),
        True,
    ),
    (f"{B1} {B1_OPERANDS}", True),
    (f"{B1.replace('mma.', 'mma.and.').replace('xor.', '')} {B1_OPERANDS}", True),
    (f"{B1.replace('mma.', 'mma.popc.').replace('.xor.popc', '.xor')} {B1_OPERANDS}", False),
    (f"{B1.removesuffix('.popc')} {B1_OPERANDS}", False),
    (f"{B1.removesuffix('.xor.popc')} {B1_OPERANDS}", False),
    (f"{B1}.popc {B1_OPERANDS}", False),
    (f"{B1}.satfinite {B1_OPERANDS}", False),
    (f"{B1.replace('row.col', 'row.row')} {B1_OPERANDS}", False),
    (f"{F64} {F64_OPERANDS}", True),
    (f"{F64[:31]}.rn{F64[31:]} {F64_OPERANDS}", True),
    (f"{F64}.rp {F64_OPERANDS}", True),
    (f"{F64[:31]}.rna{F64[31:]} {F64_OPERANDS}", False),
    (f"{F64[:31]}.rn.rn{F64[31:]} {F64_OPERANDS}", False),
    (f"{F64[:31]}.satfinite{F64[31:]} {F64_OPERANDS}", False),
    (f"{F64.replace('row.col', 'col.col')} {F64_OPERANDS}", False),
    (f"{F64} {F64_OPERANDS.replace('fd', 'rd')}", True),
    (f"{F64} {F64_OPERANDS.replace('%fd2', '%rd2')}", True),
    (f"{F64} {F64_OPERANDS.replace('%fd2', '%r2')}", False),
    (f"{F64} {F64_OPERANDS.replace('{%fd2}', '%fd2')}", False),
    (f"{F64} {F64_OPERANDS.replace('%fd0', '_')}", True),
    (f"{F64} {F64_OPERANDS.replace('%fd0, %fd1', '_, _')}", False),
    (f"{F64} {F64_OPERANDS.replace('%fd2', '0d3FF8000000000000')}", True),
    (f"{F64} {F64_OPERANDS.replace('%fd4', '0d3FF8000000000000')}", True),
    (
        (
            "mma.sync.aligned.m8n8k4.row.col.satfinite.f16.f16.f16.f16 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, "
            "{%r0, %r1, %r2, %r3};"
        ),
        False,
    ),
    (
        (
            "mma.row.sync.f16.aligned.m8n8k4.col.f16.f16.f16 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, {%r0, %r1, "
            "%r2, %r3};"
        ),
        True,
    ),
    (
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0, _, _, _}, {%r4, %r5}, {%r6, %r7}, {%r0, %r1, %r2, %r3};",
        True,
    ),
    (
        (
            "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0, %r1, %r2}, {%r4, %r5}, {%r6, %r7}, {%r0, %r1, %r2, "
            "%r3};"
        ),
        False,
    ),
    (
        (
            "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7, %r8}, {%r0, "
            "%r1, %r2, %r3};"
        ),
        False,
    ),
]

# What ptxas 13.0 takes and we do not: it makes nothing, or nonsense, of it.
STRICTER = [
    # no instruction comes out: D keeps what it held
    f"mma.sync.aligned.m8n8k4.row.col.f32.bf16.bf16.f32 {V8}, {{%r8, %r9}}, {{%r10, %r11}}, {V8};",
    (
        f"mma.sync.aligned.m8n8k4.row.col.f32.tf32.tf32.f32 {V8}, {{%r8, %r9, %r10, %r11}}, "
        f"{{%r12, %r13, %r14, %r15}}, {V8};"
    ),
    # an integer is a pattern, two f32 patterns run into each other, and a minus sign is lost
    f"{F64} {F64_OPERANDS.replace('%fd4, %fd5', '1, 2')}",
    f"{F64} {F64_OPERANDS.replace('%fd4, %fd5', '0f3F800000, 0f40000000')}",
    f"{F64} {F64_OPERANDS.replace('%fd4', '-1.0')}",
]


@over(("text", "accepted"), FINE_PRINT)
def test_fine_print(text: str, accepted: bool) -> None:
    assert takes(text, "sm_90a") == accepted


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH")
@pytest.mark.exhaustive
@over(("text", "accepted"), FINE_PRINT)
def test_fine_print_is_what_ptxas_says(text: str, accepted: bool) -> None:
    assert ptxas_takes(text, "sm_90a") == accepted


@over("text", STRICTER)
def test_stricter_than_ptxas(text: str) -> None:
    assert not takes(text, "sm_90a")


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH")
@pytest.mark.exhaustive
@over("text", STRICTER)
def test_ptxas_is_laxer(text: str) -> None:
    assert ptxas_takes(text, "sm_90a")


def mutated(text: str, generator: random.Random) -> str:
    """A legal text with one thing changed: a qualifier, an operand, a register, or nothing."""
    opcode, _, rest = text.rstrip(";").partition(" ")
    name, *qualifiers = opcode.split(".")
    operands = [
        operand.strip() for operand in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,{}\[\]]+", rest) if operand.strip()
    ] or [""]
    place = generator.randrange(len(qualifiers))
    which = generator.randrange(len(operands))
    match generator.randrange(9):
        case 0:
            del qualifiers[place]
        case 1:
            qualifiers.insert(place, qualifiers[generator.randrange(len(qualifiers))])
        case 2:
            other = generator.choice(list(FORMS)).split(".")[1:]
            qualifiers[place] = generator.choice(other)
        case 3 if name == "mma":
            generator.shuffle(qualifiers)
        case 4 if operands[which].startswith("{"):
            names = operands[which].strip("{}").split(", ")
            names = names[1:] if generator.random() < 0.5 and len(names) > 1 else [*names, "%r7"]
            operands[which] = "{" + ", ".join(names) + "}"
        case 5:
            operands[which] = generator.choice(("%r3", "7", "{%r1, %r2}", "{%r1, %r2, %r3, %r4}", "[%r5]", "-1", "0"))
        case 6:
            del operands[which]
        case 7:
            operands.insert(which, "%r9")
        case _:
            pass
    return f"{'.'.join((name, *qualifiers))} {', '.join(operands)};"


SHORT_ADDRESS = re.compile(r".*\[%rs")  # from sm_100 on refused when code is generated: not beside other errors
BARE_A = re.compile(r"mma\S*\.s32\.[us][48]\.[us][48]\.s32 \{[^}]*\}, %r\d+,")  # ptxas takes a register for a vector
ARRIVES_SHORT = re.compile(r"cp\.async\.mbarrier\.arrive(\.noinc)?\.b64 \[%rs")
"""A generic address in 16 bits, which ptxas takes in all other mbarrier instructions."""
SCALES_IN_VECTOR = re.compile(r"\{%r\d+(?:, %r\d+)+\}, \{\d+, \d+\}")
"""Scale factors in a vector, of which ptxas takes any number: an operand that is one register."""
TARGETS = "75 80 86 89 90 90a 100 100a 100f 103a 110a 120 120a 120f 121a"


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH")
@pytest.mark.exhaustive
@pytest.mark.parametrize("target", [f"sm_{n}" for n in TARGETS.split()])
def test_every_form_against_ptxas(target: str) -> None:
    """Of every row that can be listed each form, of the others forms with each choice of each place (on some targets):
    ptxas takes what `str` prints of it, or both refuse it. Each third, or all with TCSIM_PROGRAMS=1000."""
    generator, chip, step = random.Random(target), isa.parse_target(target), 1 if PROGRAMS >= 1000 else 3
    others = KERNEL_ROWS if target in ("sm_80", "sm_90a", "sm_100a") else ()
    forms = [*FORMS.values(), *(form for row in others for form in sampled_forms(row, generator))]
    forms = forms[generator.randrange(step) :: step]
    texts = [legal_text(form, generator.randrange, chip) for form in forms]
    texts = [str(isa.decode(text, target)) if takes(text, target) else text for text in texts]
    texts = [text for text in texts if not text.startswith(("st.param", "st.weak.param"))]  # legal before a call alone
    texts = [text for text in texts if not ARRIVES_SHORT.match(text)]
    texts = [text for text in texts if chip.number < 100 or not SHORT_ADDRESS.match(text)]
    wrong = disagreements(texts, target)
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH")
@pytest.mark.exhaustive
@over("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_mutated_texts_against_ptxas(target: str) -> None:
    """Texts with one thing changed: what ptxas refuses, we refuse. Of matrix instructions we also take what it takes;
    of others some are not decoded."""
    generator, chip = random.Random(target), isa.parse_target(target)
    forms = generator.sample(list(FORMS.values()), 1000)
    forms += [form for row in KERNEL_ROWS for form in generator.sample(sampled_forms(row, generator), 1)]
    named = [form for form in forms if form.qualifiers and not form.opcode.startswith(("st.param", "st.weak.param"))]
    texts = [mutated(legal_text(form, generator.randrange, chip), generator) for form in named]
    wrong = [
        line
        for line in disagreements([text for text in texts if not _beside(text)], target)
        if "refuses" in line or " mma" in line
    ]
    assert not wrong, "\n".join(wrong)


def _beside(text: str) -> bool:
    """Texts on which ptxas is known to judge otherwise."""
    if text.startswith(("ldmatrix", "mapa")) and ".shared" not in text:
        return True  # reads generic addresses: ptxas takes it, we do not
    if text.startswith("setmaxnreg"):
        return True  # ptxas compares its number with the registers of the kernel around it
    if re.search(r"%b\d", text):
        return True  # declared with 8 bits in the kernel around it, which a text alone does not tell
    if ARRIVES_SHORT.match(text) or BARE_A.match(text) or SHORT_ADDRESS.match(text):
        return True
    return ".block_scale" in text and SCALES_IN_VECTOR.search(text) is not None


def disagreements(texts: Sequence[str], target: str) -> list[str]:
    """What ptxas takes and we refuse, or the other way round."""
    return [
        f"{target}: ptxas {'takes' if accepted else 'refuses'} {text}"
        for text, accepted in zip(texts, taken(texts, target), strict=True)
        if takes(text, target) != accepted
    ]


def test_what_ptxas_takes_is_remarked() -> None:
    """Nothing that PTX does not say passes without a word."""
    doubled = isa.decode(f"{MMA_SP.replace('.sync', '.sync.sync')} {OPERANDS}")
    assert "twice" in doubled.remarks[0]
    second = isa.decode(f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, {{%r8, %r9}}, 0;", "sm_90a")
    assert "second register" in second.remarks[0]
    assert second == isa.decode(f"{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r8, 0;")
    spare = isa.decode(f"mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {V4}, {{%r4, %r5}}, {{%r6, %r7}}, {V4};")
    assert "2 registers" in spare.remarks[0]
    assert str(spare["b"]) == "{%r6}"
