"""Make the table of what ptxas 13.0 says about texts of the instructions that came with Hopper and Blackwell: bulk and
tensor copies, their groups and maps, clusters, mbarriers, single asynchronous values, registers of 128 bits, accesses
of 256, and `multimem`; legal texts, and ones with a qualifier or an operand changed.

    python -m tests.golden.make_ptxas_hopper                # writes the table, a minute of one core
    python -m tests.golden.make_ptxas_hopper --draw 20000   # compares as many fresh texts, and prints a count
    python -m tests.golden.make_ptxas_hopper --draw 20000 --seed 7 --texts

The columns are those of ptxas_threads.csv.gz. Asks the ptxas on PATH; needs no GPU. Exit status 1 if the decoder
disagrees with a text of a draw.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from isa.forms.record import Form, version
from isa.forms.rows import Row, row_form
from isa.forms.table import rows_by_name
from isa.targets import parse_target
from tests.golden.compare_ptxas import print_threads, takes
from tests.golden.make_ptxas_registers import DECLARATIONS, TYPES
from tests.golden.make_ptxas_threads import (
    ADDRESSES,
    CONSTANTS,
    OTHERS,
    QUALIFIERS,
    REGISTERS,
    VERSIONS,
    comparable,
    judge,
    reason,
    variable_ways,
    write,
)
from tests.support.row_texts import operand_texts

TABLE = Path(__file__).parent / "ptxas_hopper.csv.gz"
TEXTS = 4000
# Target and first PTX version that has it
TARGETS = {"sm_90a": "8.0", "sm_90": "7.8", "sm_100a": "8.6", "sm_120a": "8.7", "sm_100": "8.6", "sm_80": "7.8"}

# Instructions, by name, and the qualifiers of which their forms must have one
NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "cp.async.bulk", "cp.async.bulk.prefetch", "cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor",
            "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor", "tensormap.replace", "tensormap.cp_fenceproxy",
            "fence.proxy", "fence", "mapa", "getctarank", "st.async", "red.async", "st.bulk", "setmaxnreg.inc",
            "setmaxnreg.dec", "griddepcontrol", "elect", "clusterlaunchcontrol.try_cancel",
            "clusterlaunchcontrol.query_cancel", "multimem.ld_reduce", "multimem.st", "multimem.red",
            "mbarrier.init", "mbarrier.expect_tx", "mbarrier.complete_tx", "mbarrier.arrive",
            "mbarrier.arrive.expect_tx", "mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx",
            "mbarrier.test_wait", "mbarrier.try_wait", "mbarrier.try_wait.parity",
        ), (),
    ),
    "barrier": ("cluster",), "prefetch": ("tensormap",), "mov": ("b128",),
    "ld": ("shared::cluster", "b128", "v8", "v4"), "st": ("shared::cluster", "b128", "v8", "v4"),
    "atom": ("shared::cluster", "b128", "v2", "v4", "v8"), "red": ("shared::cluster", "v2", "v4", "v8"),
}  # fmt: skip
_BROAD = ("cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk", "ld", "st", "atom", "red.async")
_FOREIGN = (
    *QUALIFIERS, "tile", "im2col", "im2col::w", "im2col_no_offs", "tile::gather4", "tile::scatter4", "1d", "3d", "5d",
    "bulk_group", "mbarrier::complete_tx::bytes", "multicast::cluster", "cta_group::1", "cta_group::2", "cp_mask",
    "bulk", "tensor", "async", "read", "L2", "b1024", "rank", "box_dim", "global_address", "swizzle_mode", "inc", "dec",
    "xor", "or", "expect_tx", "noComplete", "parity", "release", "mmio", "exch", "cas", "acc::f16", "acc::f32",
    "e5m2x4", "e4m3", "alias", "tensormap::generic", "async::generic", "launch_dependents", "wait", "arrive", "pred",
    "L1::no_allocate", "L2::evict_last", "L2::evict_first", "sync_restrict::shared::cta", "mbarrier_init",
)  # fmt: skip
_TYPED = tuple(f"%{kind}_9" for kind in TYPES)
_WAYS = (
    *REGISTERS, "%rq9", *_TYPED, *CONSTANTS, *OTHERS, *ADDRESSES, "{%rd9, %rd8, %rd7, %rd6}", "{%rs9, %rs8, %rs7}",
    "{%r9, %r8, %r7, %r6, %r5, %r4, %r3, %r2}", "{1, 2}", "{%rd9, 7}", "{%rd9, _}", "{%f9, %f8}", "{%f9}",
    "[%rd9, {%r9}]", "[%rd9, {%r9, %r8}]", "[%rd9, {%r9, 7, %r7}]", "[%rd9+64, {%r9, %r8}]", "[%rd9, {%rd9, %r8}]",
    "[%rd9, %r9]", "[glo, {%r9, %r8}]", "[%r9, {%r9, %r8}]", "[%rd9, {-1, 1.0}]", "[7]", "[%rq9]", "[%u32_9]",
    "[%b64_9]", "[%s64_9]", "%laneid", "%tid.x", "%clock64", "%cluster_ctarank", "[%tid.x]", "16", "24", "240", "(1)",
)  # fmt: skip
# No predicates: in a vector ptxas takes them for registers of any width
_ELEMENTS = (
    *_TYPED[1:], "%f9", "7", "%rd9", "%rs9", "_", "0f3F800000", "1.0", "%fd9", "%r9", "%rq9", "0d3FF0000000000000",
)  # fmt: skip
_OPERAND = re.compile(r"\[[^]]*\]|\{[^}]*\}|[^,{}\[\]]+")

Text = tuple[str, str, str]  # the text, target, PTX version


def rows_of(name: str) -> list[Row]:
    """The rows of an instruction that can have one of its qualifiers."""
    wanted = set(NAMES[name])
    return [row for row in rows_by_name()[name] if not wanted or wanted & {q for slot in row.slots for q in slot}]


def texts(generator: random.Random, count: int) -> Iterator[Text]:
    """As many texts, each once: of four one is legal for its form, and three are changed in one place or two."""
    rows = {name: rows_of(name) for name in NAMES}
    seen: set[Text] = set()
    names = cycle((*NAMES, *_BROAD, *_BROAD))
    while len(seen) < count:
        name = next(names)
        form = _form(generator.choice(rows[name]), NAMES[name], generator)
        target = generator.choice([target for target in TARGETS for _ in range(1 + 4 * target.endswith("0a"))])
        changes = generator.choice((0, 1, 1, 2))
        early = [each for each in VERSIONS if version(each) >= version(TARGETS[target])]
        ptx = generator.choice(early) if not changes and generator.randrange(2) else "9.0"
        text = written(form.opcode, operand_texts(form, generator.randrange, parse_target(target)))
        for _ in range(changes):
            text = changed(text, form, generator)
        declarable = version(ptx) >= version("8.3") or not re.search(r"%rq\d|%b128_", text)
        if (text, target, ptx) not in seen and comparable(text) and declarable:
            seen.add((text, target, ptx))
            yield text, target, ptx


def _form(row: Row, wanted: tuple[str, ...], generator: random.Random) -> Form:
    while True:
        form = row_form(row, tuple(generator.choice(slot) for slot in row.slots))
        if not wanted or set(wanted) & set(form.qualifiers):
            return form


def written(opcode: str, operands: list[str]) -> str:
    """An instruction as text."""
    return f"{opcode} {', '.join(operands)}".rstrip() + ";"


def changed(text: str, form: Form, generator: random.Random) -> str:
    """The text with one thing changed: a qualifier gone, twice, of another place or instruction; an operand gone,
    twice, swapped or of another kind; an element of a vector."""
    opcode, _, rest = text.rstrip(";").partition(" ")
    name = form.name if opcode.startswith(form.name) else opcode.split(".", 1)[0]
    qualifiers = [q for q in opcode[len(name) :].split(".") if q]
    operands = [each.strip() for each in _OPERAND.findall(rest) if each.strip()]
    own = [q for row in rows_by_name()[form.name] for slot in row.slots for q in slot if q] or ["sync"]
    place, which = generator.randrange(len(qualifiers) + 1), generator.randrange(len(operands) + 1)
    strange = generator.choice(own if generator.randrange(3) else _FOREIGN)
    ways = [*_WAYS, *variable_ways(form)]
    match generator.randrange(14):
        case 0:
            del qualifiers[place : place + 1]
        case 1:
            qualifiers[place:place] = [generator.choice((strange, *qualifiers))]
        case 2 | 3:
            qualifiers[place : place + 1] = [strange]
        case 4 if len(qualifiers) > 1:
            a, b = generator.sample(range(len(qualifiers)), 2)
            qualifiers[a], qualifiers[b] = qualifiers[b], qualifiers[a]
        case 5:
            del operands[which : which + 1]
        case 6:
            operands[which:which] = [generator.choice((*ways, *operands))]
        case 7 | 8 | 9 | 10:
            operands[which : which + 1] = [generator.choice(ways)]
        case 11 if len(operands) > 1:
            a, b = generator.sample(range(len(operands)), 2)
            operands[a], operands[b] = operands[b], operands[a]
        case _:
            _change_vector(operands, generator)
    return written(".".join((name, *qualifiers)), operands)


def _change_vector(operands: list[str], generator: random.Random) -> None:
    """Replaces an element of the last vector, and perhaps cuts it."""
    vectors = [number for number, operand in enumerate(operands) if "{" in operand]
    for number in vectors[-1:]:
        before, _, inside = operands[number].partition("{")
        inside, _, behind = inside.partition("}")
        parts = inside.split(", ")
        parts[generator.randrange(len(parts))] = generator.choice(_ELEMENTS)
        operands[number] = f"{before}{{{', '.join(parts[: generator.choice((8, 8, 2))])}}}{behind}"


def declarations(ptx: str) -> str:
    """Registers of every type that a PTX version has."""
    return DECLARATIONS if version(ptx) >= version("8.3") else re.sub(r".*b128.*\n", "", DECLARATIONS)


def judged(asked: list[Text]) -> list[dict[str, str]]:
    """The rows of a table of these texts: what ptxas says of each, and why that counts for nothing where it does."""
    taken: dict[Text, bool] = {}
    for target, ptx in dict.fromkeys((target, ptx) for _, target, ptx in asked):
        own = [text for text, *where in asked if where == [target, ptx]]
        answers = judge(own, target, ptx, declarations(ptx))
        taken |= {(text, target, ptx): fine for text, fine in answers.items()}
    return [_row(each, taken[each]) for each in asked]


def _row(each: Text, fine: bool) -> dict[str, str]:
    text, target, ptx = each
    why = "" if takes(*each) == fine else reason(*each, fine, declarations(ptx))
    return {"ptx": text, "target": target, "version": ptx, "accepted": str(int(fine)), "reason": why}


def family(text: str) -> str:
    """The instruction that a text counts for: the longest name with which its opcode begins, or its first part."""
    opcode = text.split(" ", 1)[0].rstrip(";")
    return max((each for each in NAMES if f"{opcode}.".startswith(f"{each}.")), key=len, default=opcode.split(".")[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, metavar="N", help="compare N fresh texts and write no table")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--texts", action="store_true", help="print the texts on which they disagree")
    options = parser.parse_args()
    if options.draw:
        return print_threads(judged(list(texts(random.Random(options.seed), options.draw))), family)
    rows = judged(list(texts(random.Random(0), TEXTS)))
    write([tuple(row.values()) for row in rows], TABLE)  # type: ignore[misc]
    return 0


if __name__ == "__main__":
    sys.exit(main())
