"""tcgen05, mbarrier and fence: text to instruction and back, what ptxas 13.0 says about the same texts, and every way
to be wrong."""

from __future__ import annotations

import csv
import gzip
import os
import random
import re
import shutil

import pytest

import isa
from isa.forms.record import Unit
from isa.forms.table import FAMILY_ROWS, family_opcodes
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.forms.tcgen05_rows import KIND_ROWS
from isa.ptx.instruction import Address, Immediate, Predicate, Register, Sink, Vector
from isa.ptx.opcodes import find_form
from tests.golden import make_ptxas_tcgen05 as golden
from tests.support.cases import alike, examples, exhaustive, over

OPCODES = list(family_opcodes())
MMA = "tcgen05.mma.cta_group::1.kind::f16"
MMA_SP = "tcgen05.mma.sp.cta_group::1.kind::f16"
PAIR = "tcgen05.mma.cta_group::2.kind::f16"
LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32"
BLOCK = "tcgen05.mma.cta_group::1.kind::mxf4.block_scale"

# Slips of ptxas 13.0 that are not followed, one fresh text in several thousand: it takes a vector for the count of an
# arrival, and almost anything for the lane vector where a constant follows enable-input-d. No recorded text is among
# them.
SLIPS = (
    r"mbarrier\.arrive.*, \{[^}]*\};",
    r"tcgen05\.mma\.(?!\S*\bsp\b)\S*kind::(f16|tf32)\S* (?:[^,{]+, ){4}[^,{]+, [^,{]+, !?(%p\d+|\d+);",
    r"tcgen05\.mma\.(?=\S*\bsp\b)\S*kind::(f16|tf32)\S* (?:[^,{]+, ){5}[^,{]+, [^,{]+, !?(%p\d+|\d+);",
    r"tcgen05\.mma\.\S*kind::i8\S* .*, !?(%p\d+|\d+), !?(%p\d+|\d+);",
)


def takes(text: str, target: str | None = None) -> bool:
    try:
        instruction = isa.decode(text, target)
    except isa.IsaError as error:
        wrong = error
    else:
        assert isa.decode(str(instruction), target) == instruction
        return True
    assert 0 <= wrong.position <= len(text)
    assert wrong.reason
    return False


# What ptxas says


@pytest.mark.parametrize("rest", [False, pytest.param(True, marks=exhaustive)])
def test_recorded_verdicts(rest: bool) -> None:
    """Every text of the table, for every target that was tried, in both directions. By default every sixteenth row."""
    with gzip.open(golden.TABLE, "rt", newline="") as file:
        rows = [row for number, row in enumerate(csv.DictReader(file)) if (number % 16 > 0) == rest]
    pairs = [
        (row["ptx"], target, target in row["accepting"].split()) for row in rows for target in row["tried"].split()
    ]
    wrong = [(text, target, accepted) for text, target, accepted in pairs if takes(text, target) != accepted]
    assert (wrong[:5], len(wrong)) == ([], 0)
    assert len(pairs) > (26_000 if rest else 1_800)
    assert golden.TABLE.stat().st_size < 150_000


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110a", "sm_100f", "sm_120a", "sm_90a"])
def test_ptxas_agrees_about_fresh_texts(target: str) -> None:
    seed = int(os.environ.get("TCSIM_SEED", "1"))  # another number, other texts
    texts = golden.fresh_texts(600, seed)
    for text, accepted in zip(texts, golden.judge(texts, target), strict=True):
        if accepted and any(re.fullmatch(pattern, text) for pattern in SLIPS):
            continue
        assert takes(text, target) == accepted, (seed, target, text)


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110f"])
def test_ptxas_takes_what_is_printed(target: str) -> None:
    """Every opcode of the table, where the target has it, with random operands."""
    generator = random.Random(target)
    texts = [golden.legal_text(opcode, generator) for opcode in OPCODES]
    printed = [str(isa.decode(text, target)) for text in texts if takes(text, target)]
    verdicts = golden.judge(printed, target)
    assert [text for text, accepted in zip(printed, verdicts, strict=True) if not accepted] == []
    assert len(printed) > 700


# Legal text


def test_round_trip() -> None:
    """Each opcode is canonical, in any order of its qualifiers; texts print and decode to the same instruction."""
    generator = random.Random(0)
    assert len(OPCODES) == len(set(OPCODES)) > 1000
    for opcode in OPCODES:
        form = find_form(opcode)
        assert form.opcode == opcode
        for _ in range(examples(2, 1)):
            text = golden.legal_text(opcode, generator)
            instruction = isa.decode(text)
            assert instruction.form.opcode == opcode
            assert len(instruction.operands) == len(instruction.form.roles)
            assert isa.decode(str(instruction)) == instruction
        shuffled = list(form.qualifiers)
        generator.shuffle(shuffled)
        if "b8x16" not in shuffled:
            assert find_form(".".join([form.name, *shuffled])) is form


def test_every_family_and_kind_is_spelt() -> None:
    forms = [find_form(opcode) for opcode in OPCODES]
    assert {form.name for form in forms} == {"tcgen05.mma", "tcgen05.mma.ws", *(row.name for row in FAMILY_ROWS)}
    assert {form.kind for form in forms if isinstance(form, Tcgen05MmaForm)} == {row.kind for row in KIND_ROWS}


def test_sparse_mma() -> None:
    text = f"{MMA_SP} [%r1+4], [%r2], %rd2, [%r3], %r4, {{%r10, %r11, %r12, %r13}}, !%p1, 3;"
    instruction = isa.decode(text, "sm_100a")
    form = instruction.form
    assert isinstance(form, Tcgen05MmaForm)
    assert str(instruction) == text
    assert (form.kind, form.cta_group, form.sparse, form.ws, form.block_scale, form.ashift) == (
        "f16",
        1,
        True,
        False,
        False,
        False,
    )
    assert (form.a_in_tmem, form.has_lane_vector, form.has_scale_d, form.has_zero_mask) == (True, True, True, False)
    assert (form.collector, form.unit, form.since_ptx) == (("a", "discard"), Unit.TCGEN05, "8.6")
    assert instruction["d"] == Address(Register("%r1"), 4)
    assert instruction["enable"] == Predicate(Register("%p1"), True)
    assert instruction["scale_d"] == Immediate(3)
    assert instruction.reads == ("%r1", "%r2", "%rd2", "%r3", "%r4", "%r10", "%r11", "%r12", "%r13", "%p1")
    assert str(form.targets) == "sm_100a, sm_100f, sm_103a, sm_103f"


@pytest.mark.parametrize(
    ("spelling", "factors"),
    [
        ("mxf8f6f4.block_scale", 1), ("mxf8f6f4.block_scale.scale_vec::1X", 1), ("mxf4.block_scale", 2),
        ("mxf4.block_scale.block32", 2),
        ("mxf4nvf4.block_scale.block32", 2), ("mxf4nvf4.block_scale.scale_vec::4X", 4),
        ("mxf4nvf4.block_scale.block16", 4), ("f16", 0),
    ],
)  # fmt: skip
def test_scale_factors(spelling: str, factors: int) -> None:
    form = find_form(f"tcgen05.mma.sp.cta_group::2.kind::{spelling}")
    assert isinstance(form, Tcgen05MmaForm)
    assert (form.factors, form.block_scale) == (factors, factors > 0)


def test_weight_stationary() -> None:
    form = isa.decode(
        "tcgen05.mma.ws.sp.cta_group::1.kind::i8.collector::b2::fill [%r1], %rd1, %rd2, [%r3], %r4, 1, %rd5;", "sm_110a"
    ).form
    assert isinstance(form, Tcgen05MmaForm)
    assert (form.ws, form.sparse, form.collector, form.has_zero_mask, form.a_in_tmem) == (
        True,
        True,
        ("b2", "fill"),
        True,
        False,
    )


def test_movement() -> None:
    load = isa.decode(
        "tcgen05.ld.sync.aligned.16x256b.x2.pack::16b.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%r9+64];"
    ).form
    copy = find_form("tcgen05.cp.cta_group::2.64x128b.b8x16.b4x16_p64.warpx2::02_13")
    assert (load.shape, load.repeats, load.registers, load.packed, load.cta_group) == ("16x256b", 2, 8, True, 0)
    assert (copy.shape, copy.multicast, copy.decompression, copy.cta_group) == (
        "64x128b",
        "warpx2::02_13",
        "b4x16_p64",
        2,
    )
    store = isa.decode("tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r2], 16, {%r1};")
    assert store["half_split"] == Immediate(16)
    assert store["a"] == Vector((Register("%r1"),))
    assert store.writes == ()


def test_barriers() -> None:
    arrive = isa.decode("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 4096;", "sm_90a")
    assert arrive["state"] == Sink()
    assert (arrive.form.space, arrive.form.scope, arrive.form.unit) == ("shared::cta", "cta", Unit.SYNC)
    wait = isa.decode("mbarrier.try_wait.parity.shared::cta.b64 p, [bar+8], %r2, 0x989680;", "sm_100a")
    assert wait.writes == ("p",)
    assert str(isa.decode("@%p3 tcgen05.wait::ld.sync.aligned;")) == "@%p3 tcgen05.wait::ld.sync.aligned;"
    assert not takes("mbarrier.arrive.shared.b64 %rd1, [%r1], 2;", "sm_80")
    assert takes("mbarrier.arrive.shared.b64 %rd1, [%r1];", "sm_80")


@over(
    ("opcode", "since"),
    [
        (MMA_SP, "8.6"), (f"{BLOCK}.scale_vec::2X", "8.6"), (BLOCK, "8.8"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", "8.7"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16", "8.8"), ("mbarrier.init.shared.b64", "7.0"),
        ("mbarrier.init.shared::cta.b64", "7.8"), ("mbarrier.test_wait.parity.b64", "7.1"),
        ("mbarrier.try_wait.b64", "7.8"),
        ("mbarrier.try_wait.relaxed.cta.b64", "8.6"), ("fence.proxy.async", "8.0"), (LD, "8.6"),
    ],
)  # fmt: skip
def test_first_version(opcode: str, since: str) -> None:
    """As ptxas 13.0 has it; `.block_scale` without a size has another meaning before PTX 8.8, where ptxas refuses
    it."""
    assert find_form(opcode).since_ptx == since


def test_what_ptxas_drops() -> None:
    """.kind::i8 takes any constant behind enable-input-d; it is no scale."""
    instruction = isa.decode(
        "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r4, %p1, 123456789012345;", "sm_100a"
    )
    assert isinstance(instruction.form, Tcgen05MmaForm)
    assert not instruction.form.has_scale_d
    assert instruction["ignored"] == Immediate(123456789012345)


# Wrong text: (text, target, the piece that the error points at, words of the reason, words of what is legal)

CATALOGUE: list[tuple[str, str | None, str, str, str]] = [
    ("tcgen05.mmaa.cta_group::1.kind::f16 [%r1];", None, "tcgen05", "unknown instruction", "tcgen05.mma"),
    ("tcgen05 [%r1];", None, "tcgen05", "unknown instruction", "tcgen05.alloc"),
    ("mbarrier.wait.b64 %p1, [%r1];", None, "mbarrier", "unknown instruction", "mbarrier.test_wait"),
    ("tcgen05.mma.kind::f16 [%r1], %rd1, %rd2, %r4, %p1;", None, "tcgen05", "lacks .cta_group", ".cta_group::2"),
    ("tcgen05.mma.cta_group::1 [%r1], %rd1, %rd2, %r4, %p1;", None, "tcgen05", "lacks .kind", ".kind::mxf4nvf4"),
    (
        f"{MMA}.collector::a:fill [%r1], %rd1, %rd2, %r4, %p1;",
        None,
        "collector::a:fill",
        "not a qualifier",
        ".collector::a::fill",
    ),
    (
        "tcgen05.mma.sp::ordered_metadata.cta_group::1.kind::f16 [%r1];",
        None,
        "sp::ordered_metadata",
        "not a qualifier",
        "sp",
    ),
    ("tcgen05.mma.sp.ws.cta_group::1.kind::f16 [%r1];", None, "ws", "right behind tcgen05.mma", "tcgen05.mma.ws"),
    ("tcgen05.mma.ws.cta_group::2.kind::f16 [%r1];", None, "cta_group::2", "one CTA", ".cta_group::1"),
    ("tcgen05.mma.ws.cta_group::1.kind::mxf4 [%r1];", None, "kind::mxf4", "has no .kind::mxf4", ".kind::f8f6f4"),
    (
        "tcgen05.mma.ws.cta_group::1.kind::f16.collector::a::use [%r1];",
        None,
        "collector",
        "buffer b0, b1, b2 or b3",
        ".collector::b0::use",
    ),
    (f"{MMA}.collector::b1::use [%r1];", None, "collector", "has buffer a", ".collector::a::use"),
    (f"{MMA}.kind::tf32 [%r1];", None, "kind::tf32", "contradicts", "kind"),
    (f"{MMA}.cta_group::1 [%r1];", None, "cta_group::1 [", "twice", "cta_group"),
    (f"{MMA}.block_scale [%r1];", None, "block_scale", "takes no block scale", ".kind::mxf4"),
    ("tcgen05.mma.cta_group::1.kind::mxf4 [%r1];", None, "kind::mxf4", "needs .block_scale", ".kind::mxf4.block_scale"),
    (f"{BLOCK}.block16 [%r1];", None, "block16", "no vector size .block16", ".scale_vec::2X"),
    (
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r1];",
        None,
        "kind::mxf4nvf4",
        "needs a vector size",
        ".block16",
    ),
    (f"{BLOCK}.ashift [%r1];", None, "ashift", "takes no .ashift", "no .ashift"),
    (f"{MMA}.ashift.collector::a::fill [%r1];", None, "collector", "unshifted", ".collector::a::lastuse"),
    (f"{MMA}.ashift [%r1], %rd1, %rd2, %r4, %p1;", None, "%rd1", "Tensor Memory", "[%r0]"),
    (f"{MMA} [%r1], %rd1, %rd2, %r4, {{%r1, %r2}}, %p1;", None, "{", "operand lanes has 2 registers", "4 registers"),
    (
        f"{PAIR} [%r1], %rd1, %rd2, %r4, {{%r1, %r2, %r3, %r4}}, %p1;",
        None,
        "{",
        "operand lanes has 4 registers",
        "8 registers",
    ),
    (f"{MMA} [%r1], %rd1, %rd2, %r4, {{0, 0, 0, 0}}, %p1;", None, "{", "leave its type open", "a register"),
    (f"{MMA} [%r1], %rd1, %rd2, %r4, %r5;", None, "%r5", "a 32-bit register", "predicate, %p0"),
    (f"{MMA} [%r1], %rd1, %rd2, %r4;", None, ";", "operand enable is missing", "enable: predicate"),
    (f"{MMA} [%r1], %r2, %rd2, %r4, %p1;", None, "%r2", "a 32-bit register", "64-bit register, %rd0"),
    (f"{MMA} [%rd1], %rd2, %rd2, %r4, %p1;", None, "%rd1", "a 64-bit register", "32-bit register, %r0"),
    (f"{MMA} [%r1], %rd2, %rd2, %laneid, %p1;", None, "%laneid", "special register", "mov"),
    (f"{MMA} %r1, %rd2, %rd2, %r4, %p1;", None, "%r1", "'[' expected", ""),
    (f"{MMA} [16], %rd2, %rd2, %r4, %p1;", None, "16", "an address begins with a register", "[%r0]"),
    (f"{MMA} [%r1], %rd1, %rd2, %r4, %p1, 16;", None, "16", "operand scale_d 16 is out of range", "0 to 15"),
    (
        f"{MMA} [%r1], %rd1, %rd2, %r4, %p1, 3;",
        "sm_110a",
        "3;",
        "is not available on sm_110a",
        "sm_100a, sm_100f, sm_103a, sm_103f",
    ),
    (f"{MMA_SP} [%r1], %rd1, %rd2, %r4, %p1;", None, "%r4", "'[' expected", ""),
    (f"{BLOCK} [%r1], %rd1, %rd2, %r4, [%r5], [%r6], %p1, 1;", None, ", 1", "takes nothing more", "scale_b"),
    (
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r4, 1, 1;",
        None,
        ", 1;",
        "takes nothing more",
        "enable",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r4, {%r1,%r2,%r3,%r4}, 1, 7;",
        None,
        "7",
        "nothing may follow",
        ";",
    ),
    (f"{MMA} [%r1], %rd1, %rd2, %r4, %p1;", "sm_120a", "tcgen05", "is not available on sm_120a", "sm_100a"),
    (
        "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r4, 1;",
        "sm_103a",
        "tcgen05",
        "is not available on sm_103a",
        "sm_110a",
    ),
    (
        f"{BLOCK}.scale_vec::2X [%r1], %rd1, %rd2, %r4, [%r5], [%r6], 1;",
        "sm_100f",
        "tcgen05",
        "is not available on sm_100f",
        "sm_100a",
    ),
    (f"{LD} %r1, [%r2];", None, "%r1", "a vector of 2 registers", "{...}"),
    (f"{LD} {{%r1, _}}, [%r2];", None, "{", "keeps every register", "no '_'"),
    (f"{LD} {{%r1, %r2}}, [%r2], 16;", None, ", 16", "takes nothing more", "taddr"),
    (
        "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2];",
        None,
        ";",
        "half_split is missing",
        "half_split: immediate",
    ),
    (
        "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1}, [%r2];",
        None,
        "16x256b",
        "does not go with .sync .aligned .x64",
        "16x256b.x16",
    ),
    (
        "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%r1}, [%r2];",
        None,
        "x3",
        "not a qualifier of 'tcgen05.ld'",
        "32x32b.x32",
    ),
    ("tcgen05.ld.sync.aligned.32x32b.x2.x4.b32 {%r1}, [%r2];", None, "x4", "contradicts '.x2'", ".x2 or .x4"),
    ("tcgen05.ld.sync.aligned.32x32b.b32 {%r1}, [%r2];", None, "tcgen05", "lacks .x1 or .x2", "32x32b.x2.b32"),
    ("tcgen05.wait::ld.sync;", None, "tcgen05", "lacks .aligned", "tcgen05.wait::ld.sync.aligned"),
    ("tcgen05.cp.cta_group::1.128x256b.warpx4 [%r1], %rd1;", None, "warpx4", "does not go with", "tcgen05.cp"),
    ("tcgen05.cp.cta_group::1.32x128b [%r1], %rd1;", None, "tcgen05", "lacks .warpx4", "32x128b.warpx4"),
    (
        "tcgen05.cp.cta_group::1.4x256b.b6x16_p32.b8x16 [%r1], %rd1;",
        None,
        "b6x16_p32",
        "must stand behind '.b8x16'",
        "b8x16.b6x16_p32",
    ),
    (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;",
        None,
        "48",
        "operand columns is 48",
        "32, 64, 128, 256, 512",
    ),
    ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 48;", None, "48", "operand columns is 48", "a multiple of 32"),
    ("tcgen05.shift.cta_group::1.down [%r1];", "sm_100f", "tcgen05", "is not available on sm_100f", "sm_100a"),
    (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cta.b64 [%r1];",
        None,
        "shared::cta",
        "not a qualifier",
        "shared::cluster.b64",
    ),
    (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [%r1], %r2;",
        None,
        "%r2",
        "a 32-bit register",
        "16-bit register",
    ),
    ("mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];", None, "%rd1", "another CTA returns no state", "_"),
    ("mbarrier.arrive.shared.b64 %rd1, [%r1], 0;", None, "0;", "operand count is 0", "1 or more"),
    (
        "mbarrier.arrive.release.shared.b64 %rd1, [%r1];",
        None,
        "mbarrier",
        "lacks .cta",
        "mbarrier.arrive.release.cta.shared.b64",
    ),
    ("mbarrier.init.b64 [%r1], 1;", None, "%r1", "a 32-bit register", "64-bit register"),
    ("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 2;", None, "2;", "operand parity 2 is out of range", "0 to 1"),
    ("mbarrier.test_wait.shared.b64 %r1, [%r1], %rd1;", None, "%r1", "a 32-bit register", "predicate"),
    ("fence.proxy.async.shared;", None, "shared", "'.shared' does not go with .async", "fence.proxy.async.shared::cta"),
    ("fence.acq_rel.cluster;", "sm_80", "fence", "is not available on sm_80", "sm_90"),
]


@over(("text", "target", "place", "reason", "legal"), CATALOGUE)
def test_errors(text: str, target: str | None, place: str, reason: str, legal: str) -> None:
    with pytest.raises(isa.IsaError) as caught:
        isa.decode(text, target)
    error = caught.value
    assert reason in error.reason
    assert legal in error.legal
    assert text[error.position :].startswith(place), (text[error.position :], place)


@over(("texts", "seed"), [(300, 6), (1500, 7)], distinct=alike)
def test_only_isa_errors(texts: int, seed: int) -> None:
    """Whatever is done to a text, it decodes or raises IsaError with a place."""
    generator = random.Random(1)
    for text in golden.fresh_texts(texts, seed):
        characters = list(text)
        for _ in range(generator.randrange(4)):
            place = generator.randrange(len(characters))
            characters[place : place + generator.randrange(3)] = generator.choice(
                ["", ".", "::", "[", "]", "{", "}", ",", "%", "!", ";", " ", "x", "_"]
            )
        takes("".join(characters))
