"""Make the table of what ptxas 13.0 says about texts of `tcgen05`, `mbarrier` and `fence`.

    python -m tests.golden.make_ptxas_tcgen05 FILE

FILE is a table of ptxas 13.0's verdicts on `tcgen05.mma` (columns ptx, targets_tried, targets_accepting); all of it is
kept. To it come texts of every family, legal ones and ones with something changed, which the ptxas on PATH judges now.
Needs no GPU.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
import subprocess
import sys
from pathlib import Path

from isa.forms.record import Form, Role, Shape
from isa.forms.table import family_opcodes
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.ptx.opcodes import find_form

TABLE = Path(__file__).parent / "ptxas_tcgen05.csv.gz"
TARGETS = ("sm_100a", "sm_103a", "sm_110a", "sm_100f", "sm_103f", "sm_110f", "sm_120a", "sm_90a", "sm_80")
FRESH = 2000
_DECLARED = (
    ".reg .pred %p<64>; .reg .b16 %rs<64>; .reg .b32 %r<512>; .reg .b64 %rd<64>; .reg .f32 %f<64>; "
    ".shared .align 16 .b64 bar[4];"
)
_PREFIX = {1: "%p", 16: "%rs", 32: "%r", 64: "%rd"}


def judge(texts: list[str], target: str) -> list[bool]:
    """What ptxas says about each text, alone in a kernel of a common module: those that it names are dropped until the
    rest assembles."""
    left = list(range(len(texts)))
    while left:
        lines, owner = [".version 9.0", f".target {target}", ".address_size 64"], {}
        for number in left:
            for line in (f".visible .entry k{number}() {{ {_DECLARED}", texts[number].replace("\n", " "), "ret; }"):
                lines.append(line)
                owner[len(lines)] = number
        run = subprocess.run(
            ["ptxas", "-arch", target, "-", "-o", "/dev/null"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode == 0:
            break
        errors = re.findall(r"ptxas (?!<macro)[^,\n]*, line (\d+); (?:error|fatal)\s*:\s*(.*)", run.stdout + run.stderr)
        stop = [
            int(line) for line, message in errors if "syntax error" in message
        ]  # what ptxas says behind it may be about the wrong text
        wrong = {owner[line] for line in (stop[:1] or [int(line) for line, _ in errors]) if line in owner}
        if not wrong and len(left) == 1:
            return [False] * len(texts)
        if not wrong:  # an error without a place
            half = len(left) // 2
            taken = {
                n
                for part in (left[:half], left[half:])
                for n, ok in zip(part, judge([texts[n] for n in part], target), strict=True)
                if ok
            }
            return [number in taken for number in range(len(texts))]
        left = [number for number in left if number not in wrong]
    return [number in left for number in range(len(texts))]


def legal_text(opcode: str, generator: random.Random) -> str:
    """A legal instruction with this opcode."""
    form = find_form(opcode)
    roles = [role for role in form.roles if not (role.optional and generator.randrange(2))]
    if any(role.name == "lanes" for role in roles):
        roles = [role for role in roles if role.name != "ignored"]
    return f"{opcode} {', '.join(_operand(role, form, generator) for role in roles)}".rstrip() + ";"


def _operand(role: Role, form: Form, generator: random.Random) -> str:
    bits = generator.choice([b for b in role.widths or (32,) if b != 16 or role.widths == (16,)])
    register = f"{_PREFIX[bits]}{generator.randrange(64)}"
    integer = str(generator.randrange(role.limit or 1000) * role.multiple + (1 if role.positive else 0))
    match role.shape:
        case Shape.VECTOR:
            return "{" + ", ".join(f"%r{generator.randrange(512)}" for _ in range(role.count)) + "}"
        case Shape.ADDRESS:
            return _address(generator.choice([register, "bar"]) if role.variables else register, generator)
        case Shape.MATRIX if (isinstance(form, Tcgen05MmaForm) and form.ashift) or generator.randrange(2):
            return _address(f"%r{generator.randrange(64)}", generator)
        case Shape.MATRIX | Shape.VALUE:
            constant = (
                str(generator.choice(role.choices[0]))
                if role.choices
                else generator.choice([integer, hex(int(integer))])
            )
            return generator.choice([register, constant])
        case Shape.PREDICATE:
            return generator.choice([register, f"!{register}", str(generator.randrange(3))])
        case Shape.IMMEDIATE if role.choices:
            return str(role.choices[0][generator.randrange(len(role.choices[0]))])
        case Shape.IMMEDIATE:
            return str(generator.choice(role.choices[0])) if role.choices else integer
    return "_" if role.sink == "must" or (role.sink and generator.randrange(2)) else register


def _address(base: str, generator: random.Random) -> str:
    return f"[{base}]" if generator.randrange(2) else f"[{base}+{8 * generator.randrange(-4, 64)}]"


def mutated(text: str, generator: random.Random) -> str:
    """The text with one thing changed: a qualifier gone, twice, foreign or elsewhere, an operand gone, twice, swapped
    or of another kind."""
    opcode, _, rest = text.rstrip(";").partition(" ")
    first, *qualifiers = opcode.split(".")
    operands = [operand.strip() for operand in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,{}\[\]]+", rest) if operand.strip()]
    foreign = [
        "cta_group::1",
        "cta_group::2",
        "sp",
        "ws",
        "kind::f16",
        "kind::tf32",
        "kind::i8",
        "kind::mxf4",
        "kind::mxf4nvf4",
        "kind::mxf8f6f4",
        "kind::f8f6f4",
        "block_scale",
        "scale_vec::1X",
        "scale_vec::2X",
        "scale_vec::4X",
        "block16",
        "block32",
        "ashift",
        "collector::a::use",
        "collector::a::fill",
        "collector::a::lastuse",
        "collector::b0::fill",
        "collector::b3::use",
        "x1",
        "x2",
        "x64",
        "x128",
        "32x32b",
        "16x64b",
        "16x128b",
        "16x256b",
        "16x32bx2",
        "pack::16b",
        "unpack::16b",
        "sync",
        "aligned",
        "b32",
        "b64",
        "f32",
        "s32",
        "min",
        "abs",
        "shared::cta",
        "shared::cluster",
        "multicast::cluster",
        "warpx4",
        "warpx2::02_13",
        "64x128b",
        "128x128b",
        "release",
        "acquire",
        "relaxed",
        "cta",
        "cluster",
        "gpu",
        "async",
        "parity",
        "noComplete",
        "down",
    ]
    others = [
        "%p1",
        "!%p2",
        "%r3",
        "%rd4",
        "[%r5]",
        "[%rd6+8]",
        "5",
        "-1",
        "16",
        "1.0",
        "0f3F800000",
        "{%r1, %r2, %r3, %r4}",
        "{%r1, %r2}",
        "{%r1}",
        "_",
        "%laneid",
        "[16]",
        "%rs3",
        "%f2",
        "{%r1, 0, 0, %r2}",
        "!1",
        "0x40",
    ]
    place, which = generator.randrange(len(qualifiers) + 1), generator.randrange(len(operands) + 1)
    match generator.randrange(9):
        case 0:
            del qualifiers[place : place + 1]
        case 1:
            qualifiers[place:place] = [generator.choice(foreign)]
        case 2:
            qualifiers[place : place + 1] = [generator.choice(foreign)]
        case 3:
            qualifiers[1:] = generator.sample(qualifiers[1:], len(qualifiers) - 1) if qualifiers else []
        case 4:
            del operands[which : which + 1]
        case 5:
            operands[which:which] = [generator.choice(others)]
        case 6 | 7:
            operands[which : which + 1] = [generator.choice(others)]
        case _:
            generator.shuffle(operands)
    return f"{'.'.join([first, *qualifiers])} {', '.join(operands)}".rstrip() + ";"


def fresh_texts(count: int, seed: int) -> list[str]:
    """Texts of every family, one in three legal, the others with something changed once or twice."""
    generator = random.Random(seed)
    families: dict[str, list[str]] = {}
    for opcode in family_opcodes():
        if "x64" not in opcode and "x128" not in opcode and "x32." not in opcode:  # short ones
            families.setdefault(find_form(opcode).name, []).append(opcode)
    texts = []
    for number in range(count):
        name = generator.choice(
            [*families, *["tcgen05.mma"] * 15, *["tcgen05.mma.ws"] * 6, *["tcgen05.ld", "tcgen05.st", "tcgen05.cp"] * 3]
        )
        text = legal_text(generator.choice(families[name]), generator)
        for _ in range(number % 3):
            text = mutated(text, generator)
        texts.append(text)
    return texts


def main(source: Path) -> None:
    with source.open(newline="") as file:
        rows = [(row["ptx"], row["targets_tried"], row["targets_accepting"]) for row in csv.DictReader(file)]
    texts = list(dict.fromkeys(fresh_texts(FRESH, 0)))
    verdicts = {target: judge(texts, target) for target in TARGETS}
    rows += [
        (text, " ".join(TARGETS), " ".join(t for t in TARGETS if verdicts[t][number]))
        for number, text in enumerate(texts)
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("ptx", "tried", "accepting"))
    writer.writerows(rows)
    TABLE.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{TABLE}: {len(rows)} texts, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden.make_ptxas_tcgen05 FILE")
    main(Path(sys.argv[1]))
