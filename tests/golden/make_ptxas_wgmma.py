"""Make the table of what ptxas 13.0 says about texts of `wgmma`: legal ones of every type, N and source of A, and ones
with a qualifier or an operand changed.

    python -m tests.golden.make_ptxas_wgmma    # asks the ptxas on PATH, two minutes of one core

The columns are those of ptxas_threads.csv.gz. Needs no GPU.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from collections.abc import Iterator
from pathlib import Path

from isa.forms.record import Form, Role, Shape
from isa.forms.rows import Row, row_form
from isa.forms.wgmma import WGMMA_ROWS, is_wgmma
from tests.golden.make_ptxas_threads import ADDRESSES, CONSTANTS, OTHERS, REGISTERS, judge

TABLE = Path(__file__).parent / "ptxas_wgmma.csv.gz"
VERSIONS = ("8.0", "8.1", "8.2", "8.3", "8.4", "9.0")
ELSEWHERE = ("sm_80", "sm_90", "sm_100a", "sm_120a")
LEGAL, CHANGED, EARLIER = 1200, 3600, 400
_FOREIGN = (
    "sp", "sp::ordered_metadata", "sync", "aligned", "satfinite", "and", "xor", "popc", "row", "col", "f16", "f32",
    "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "s32", "b1", "s4", "e2m1", "f64", "kind::f16", "m64n8k8", "m64n8k16",
    "m64n8k32", "m64n8k64", "m64n16k16", "m64n40k32", "m64n40k64", "m64n56k32", "m64n264k16", "m64n12k16", "m64n0k16",
    "m128n8k16", "m16n8k16", "m64n8k256", "m64n8k512", "m64n8k128", "trans", "shared", "relu", "cta_group::1",
)  # fmt: skip
_WAYS = (*REGISTERS, *CONSTANTS, *OTHERS, *ADDRESSES[:4], "{%f9, %f8, %f7, %f6}", "{%r9, %f8, %r7, %f6}",
         "{%r9, 7, %r7, %r6}", "{%r9, 0f3F800000, %r7, %r6}", "{1, 2, 3, 4}", "1", "-1", "2", "3", "-2")  # fmt: skip


def texts(generator: random.Random) -> Iterator[tuple[str, str, str]]:
    """(text, target, PTX version)."""
    for number in range(LEGAL + CHANGED):
        text = legal_text(generator)
        for _ in range(0 if number < LEGAL else 1 + (number % 4 == 0)):
            text = changed(text, generator)
        yield text, "sm_90a", "9.0"
    for _ in range(EARLIER):
        yield legal_text(generator), "sm_90a", generator.choice(VERSIONS)
    for target in ELSEWHERE:
        for _ in range(25):
            yield legal_text(generator), target, "9.0"


def legal_text(generator: random.Random) -> str:
    """A legal instruction; most have few columns, so that texts are short."""
    row = generator.choice(WGMMA_ROWS if generator.randrange(10) == 0 else WGMMA_ROWS[:-3])
    form = _form(row, generator)
    in_registers = bool(generator.randrange(2))
    roles = [role for role in form.roles if not (role.optional and in_registers)]
    operands = [_operand(role, form, in_registers, generator) for role in roles]
    return f"{form.opcode} {', '.join(operands)}".rstrip() + ";"


def _form(row: Row, generator: random.Random) -> Form:
    choice = []
    for slot in row.slots:
        few = len(slot) > 8 and generator.randrange(8)
        choice.append(generator.choice(slot[:5] if few else slot))
    return row_form(row, tuple(choice))


def _operand(role: Role, form: Form, in_registers: bool, generator: random.Random) -> str:
    if role.braced is not None and in_registers:
        role = role.braced
    match role.shape:
        case Shape.VECTOR:
            floats = is_wgmma(form) and role.name == "d" and form.d_type.name == "f32" and generator.randrange(2)
            start = generator.randrange(64)
            return "{" + ", ".join(f"%{'f' if floats else 'r'}{start + i}" for i in range(role.count)) + "}"
        case Shape.SCALAR:
            return generator.choice([f"%r{generator.randrange(64)}", "{%r3}"])
        case Shape.PREDICATE:
            return generator.choice(["%p1", "!%p2", "0", "1", "!0"])
        case Shape.IMMEDIATE:
            choices = role.choices[0] if role.choices else range(min(role.limit, 20))
            return str(generator.choice(list(choices)))
    return generator.choice([f"%rd{generator.randrange(64)}"] * 6 + [str(generator.randrange(1 << 62)), "-5"])


def changed(text: str, generator: random.Random) -> str:
    """The text with one thing changed: a qualifier gone, twice, foreign or elsewhere, an operand gone, twice, swapped
    or of another kind, or one register of a vector."""
    opcode, _, rest = text.rstrip(";").partition(" ")
    first, second, *qualifiers = opcode.split(".")
    operands = [each.strip() for each in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,{}\[\]]+", rest) if each.strip()]
    place, which = generator.randrange(len(qualifiers) + 1), generator.randrange(len(operands) + 1)
    match generator.randrange(11):
        case 0:
            del qualifiers[place : place + 1]
        case 1:
            qualifiers[place:place] = [generator.choice((*_FOREIGN, *qualifiers))]
        case 2:
            qualifiers[place : place + 1] = [generator.choice(_FOREIGN)]
        case 3 if len(qualifiers) > 1:
            a, b = generator.sample(range(len(qualifiers)), 2)
            qualifiers[a], qualifiers[b] = qualifiers[b], qualifiers[a]
        case 4:
            del operands[which : which + 1]
        case 5:
            operands[which:which] = [generator.choice((*_WAYS, *operands))]
        case 6 | 7 | 8:
            operands[which : which + 1] = [generator.choice(_WAYS)]
        case 9 if len(operands) > 1:
            a, b = generator.sample(range(len(operands)), 2)
            operands[a], operands[b] = operands[b], operands[a]
        case _:
            vectors = [number for number, operand in enumerate(operands) if operand.startswith("{")]
            for number in vectors[-1:]:
                parts = operands[number].strip("{}").split(", ")
                parts[generator.randrange(len(parts))] = generator.choice(
                    ("%f9", "7", "%rd9", "%rs9", "_", "0f3F800000")
                )
                operands[number] = "{" + ", ".join(parts[: generator.choice((len(parts), len(parts), 2))]) + "}"
    return f"{'.'.join([first, second, *qualifiers])} {', '.join(operands)}".rstrip() + ";"


def main() -> None:
    asked = list(dict.fromkeys(texts(random.Random(0))))
    taken: dict[tuple[str, str, str], bool] = {}
    for target, ptx in dict.fromkeys((target, ptx) for _, target, ptx in asked):
        own = [text for text, *where in asked if where == [target, ptx]]
        taken |= {(text, target, ptx): fine for text, fine in judge(own, target, ptx).items()}
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("ptx", "target", "version", "accepted", "reason"))
    writer.writerows((*each, int(taken[each]), "") for each in asked)
    TABLE.write_bytes(gzip.compress(table.getvalue().encode(), 9, mtime=0))
    print(f"{TABLE}: {len(asked):,} texts, {sum(taken.values()):,} of them legal, {TABLE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
