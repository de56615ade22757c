"""Makes the table of the registers that ptxas 13.0 takes for each operand of each instruction, by the type that they
are declared with.

    python -m tests.golden.make_ptxas_registers            # asks the ptxas on PATH, a few minutes of one core

For every row of the tables one form of each list of operands is taken, and each of its operands that may be a register
is written with registers of every type. A row of the table is a text with `@` in the place of those registers, and the
types that are taken. Needs no GPU.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from isa.forms.record import Form, Role, Shape
from isa.forms.rows import Row
from isa.forms.table import FAMILY_ROWS, KERNEL_ROWS, PLAIN_ROWS
from isa.targets import parse_target
from tests.golden.make_ptxas_threads import judge
from tests.support.row_texts import operand_texts, sampled_forms

TABLE = Path(__file__).parent / "ptxas_registers.csv.gz"
TYPES = (
    "pred", "b8", "u8", "s8", "b16", "u16", "s16", "f16", "b32", "u32", "s32", "f32", "f16x2", "b64", "u64", "s64",
    "f64", "b128",
)  # fmt: skip
DECLARATIONS = "".join(f".reg .{kind} %{kind}_<256>;\n" for kind in TYPES)
TARGETS = ("sm_100a", "sm_90a", "sm_120a", "sm_80")
VERSION = "9.0"
_REGISTER = re.compile(r"%(?:p|rs|r|rd|b|rq)\d+")


class Question(NamedTuple):
    """An instruction with `@` in the place of a register, and the target that it is tried on."""

    target: str
    text: str


def written(text: str, kind: str) -> str:
    """The text with registers of a type where it has `@`, each of them another one."""
    numbers = itertools.count()
    return re.sub("@", lambda _: f"%{kind}_{next(numbers)}", text)


def questions(rows: tuple[Row, ...] = (*PLAIN_ROWS, *KERNEL_ROWS, *FAMILY_ROWS)) -> Iterator[Question]:
    """For each distinct list of operands of an instruction, each operand that may be a register."""
    generator = random.Random(0)
    seen: set[tuple[object, ...]] = set()
    for row in rows:
        for form in sampled_forms(row, generator):
            target = next((name for name in TARGETS if form.supports(parse_target(name))), None)
            kinds = tuple(q for q in form.qualifiers if re.fullmatch(r"(?:[bsuf]|bf|tf)\d+(?:x2)?|pred|e\dm\dx2", q))
            key = (row.name, form.roles, kinds)
            if target is not None and key not in seen:
                seen.add(key)
                yield from _of_form(form, target, generator)


def _of_form(form: Form, target: str, generator: random.Random) -> Iterator[Question]:
    for place, role in enumerate(form.roles):
        for _ in range(40):  # until a text is drawn in which the operand is a register
            operands = operand_texts(form, generator.randrange, parse_target(target))
            if place < len(operands) and len(operands) == len(form.roles) and _REGISTER.search(operands[place]):
                break
        else:
            continue
        for part in _parts(role, operands[place]):
            changed = [*operands[:place], part, *operands[place + 1 :]]
            text = f"{form.opcode} {', '.join(changed)};".replace("!@", "@")
            yield Question(target, text)


def _parts(role: Role, operand: str) -> Iterator[str]:
    """The operand with `@` for its register; of a pair for one and for the other."""
    if role.shape in (Shape.PAIR, Shape.REGISTER_OR_PAIR) and "|" in operand:
        first, second = operand.split("|")
        if first != "_":
            yield f"@|{second}"
        yield f"{first}|@"
        return
    yield re.sub(r"\+\d+(?=\])", "", _REGISTER.sub("@", operand))


def taken(asked: list[Question]) -> dict[Question, tuple[str, ...]]:
    """The types that ptxas takes for each question."""
    found: dict[Question, tuple[str, ...]] = {}
    for target in TARGETS:
        own = [each for each in asked if each.target == target]
        texts = [written(each.text, kind) for each in own for kind in TYPES]
        fine = judge(list(dict.fromkeys(texts)), target, VERSION, DECLARATIONS)
        for each in own:
            found[each] = tuple(kind for kind in TYPES if fine[written(each.text, kind)])
    return found


def main() -> None:
    asked = list(dict.fromkeys(questions()))
    found = taken(asked)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("ptx", "target", "types"))
    writer.writerows((each.text, each.target, " ".join(found[each])) for each in asked)
    TABLE.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{TABLE}: {len(asked):,} operands, {TABLE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
