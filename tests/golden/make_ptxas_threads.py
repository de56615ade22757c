"""Makes the table of what ptxas 13.0 says about texts of every family but matrix instructions and `tcgen05`.

    python -m tests.golden.make_ptxas_threads            # asks the ptxas on PATH, a few minutes of one core
    python -m tests.golden.make_ptxas_threads --count    # prints how many texts there are of each family
    python -m tests.golden.make_ptxas_threads --mark     # asks again about the disagreements of the table

The texts are drawn from the rows of the tables with a fixed seed: every row with each choice of its qualifiers on
several targets, with qualifiers changed, and with each operand written in every way that PTX has. A text is judged in
one kernel with others; those that ptxas names are taken out until it takes the rest. Column `reason` says of a text on
which the decoder disagrees why its verdict counts for nothing (`reason`). Needs no GPU.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple

from isa.forms.record import Form, Role, version
from isa.forms.rows import Row
from isa.forms.table import KERNEL_ROWS, PLAIN_ROWS
from isa.targets import parse_target
from tests.golden.compare_ptxas import takes, thread_verdicts
from tests.support.row_texts import legal_text, operand_texts, sampled_forms

TABLE = Path(__file__).parent / "ptxas_threads.csv.gz"
TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
_LATEST = "9.0"
_FIRST_VERSION = {"sm_80": "7.0", "sm_89": "7.8", "sm_90a": "8.0", "sm_100a": "8.6", "sm_120a": "8.7"}
ROWS: tuple[Row, ...] = tuple(  # wgmma has a table of its own: make_ptxas_wgmma.py
    row for row in (*PLAIN_ROWS, *KERNEL_ROWS) if not row.name.startswith("wgmma")
)

# With a register or a constant where the mbarrier belongs, which ptxas takes for something else
_NO_MBARRIER = re.compile(r"(?:@\S+ )?cp\.\S*async\.bulk\.\S*mbarrier\S*(?: [^,]+,){3} [^\[]")
# Legal only beside a call, which a text of one instruction does not have
_BESIDE_CALLS = re.compile(r"(?:@\S+ )?(?:(?:ld|st)\S*param::func|st\S*\.param)")

_HEAD = """.version {version}
.target {target}
.address_size 64
.visible .global .align 16 .b8 glo[1024];
.const .align 16 .b8 con[1024];
.visible .entry k(.param .align 16 .b8 par[1024]) {{
.reg .pred %p<256>;
.reg .b8 %b<256>;
.reg .b16 %rs<256>;
.reg .b16 %h<8>;
.reg .b32 %r<256>;
.reg .f32 %f<256>;
.reg .b64 %rd<256>;
.reg .f64 %fd<256>;
.shared .align 16 .b8 bar[1024];
.local .align 16 .b8 loc[1024];
"""
_LINE = re.compile(r"ptxas (?!<macro)[^,\n]*, line (\d+); (?:error|fatal)\s*:\s*(.*)")
_AT_ONCE = 150

REGISTERS = ("%p9", "!%p9", "%rs9", "%h1", "%r9", "%rd9", "%f9", "%fd9")
SPECIALS = (
    "%laneid", "%tid.x", "%ntid.y", "%ctaid.z", "%clock", "%clock64", "%globaltimer", "%lanemask_lt", "%envreg3",
    "%total_smem_size", "%reserved_smem_offset_cap", "%gridid", "%pm0", "%nclusterid.x", "%cluster_ctarank",
    "%reserved_smem_offset_0", "%reserved_smem_offset_1", "%reserved_smem_offset_begin", "%aggr_smem_size",
    "%reserved_smem_offset_end", "%dynamic_smem_size", "%smid", "%nsmid", "%clock_hi", "%globaltimer_lo",
    "%is_explicit_cluster", "%cluster_ctaid.x", "%warpid", "%lanemask_eq",
    "%nwarpid", "%globaltimer_hi", "%cluster_nctaid.y", "%cluster_nctarank",
)  # fmt: skip
CONSTANTS = (
    "0", "7", "-1", "128", "255", "256", "32", "0x7f", "0xFFFFFFFF", "0x1ffffffff", "65536", "-32769", "0b101", "017",
    "18446744073709551615", "5U", "0f3F800000", "0fBF800000", "0d3FF0000000000000", "1.0",
    "-1.0", ".5", "2.", "1e10", "0.", "-0f3F800000", "(1+2)", "1 << 4", "089", "0x", "WARP_SZ",
)  # fmt: skip
OTHERS = (
    "_", "{%r9, %r8}", "{%rs9, %rs8}", "{%r9}", "{%rd9, %rd8}", "{%f9, 0.}", "{%r9, 1}", "{%r9, _}",
    "{%r9, %r8, %r7, %r6}",
    "%r9|%p9", "_|%p9", "%p9|%p8", "%p9|_", "%r9|_",
)  # fmt: skip
ADDRESSES = (
    "[%r9]", "[%rd9]", "[%rs9]", "[%f9]", "[%fd9]", "[%p9]", "[%rd9+8]", "[%rd9+-8]", "[%r9+16]", "[%rd9-8]",
    "[%rd9+0x10]", "[%rd9+1.0]", "[%laneid]",
)  # fmt: skip
VARIABLES = {
    "shared": "bar",
    "shared::cta": "bar",
    "shared::cluster": "bar",
    "global": "glo",
    "const": "con",
    "local": "loc",
    "param": "par",
}
WAYS = (*REGISTERS, *CONSTANTS, *OTHERS, *ADDRESSES)
QUALIFIERS = (
    "s8", "u8", "b8", "s16", "u16", "b16", "s32", "u32", "b32", "s64", "u64", "b64", "f16", "f16x2", "bf16", "bf16x2",
    "f32", "f32x2", "f64", "pred", "b128", "s16x2", "u16x2", "tf32", "e4m3x2", "rn", "rz", "rm", "rp", "rni",
    "rna", "ftz", "sat", "satfinite",
    "relu", "cc", "hi", "lo", "wide", "NaN", "abs", "xorsign", "approx", "full", "noftz", "add", "max", "min", "and",
    "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "v2", "v4", "v8", "volatile",
    "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "sync", "aligned", "trans",
    "nc", "ca", "cg",
    "L2::cache_hint", "L2::128B", "weak", "clamp", "wrap", "oob",
)  # fmt: skip


class Asked(NamedTuple):
    """A text, the target and the PTX version that it is tried for, and the family that it counts for."""

    family: str
    text: str
    target: str
    version: str = _LATEST


def family(name: str) -> str:
    """The family of an instruction: the first part of its opcode."""
    return name.split(".", 1)[0]


def _forms(row: Row, generator: random.Random, most: int) -> list[Form]:
    """All forms of a row, or, of one that has many, those in which each choice of each slot occurs, and some more."""
    if prod(len(slot) for slot in row.slots) <= most:
        return list(row.forms())
    return (sampled_forms(row, generator, 1))[:most]


def _on(form: Form, generator: random.Random) -> str:
    """A target that has the form."""
    fit = [name for name in TARGETS if form.supports(parse_target(name))] or ["sm_100a"]
    return generator.choice(fit)


def _legal(form: Form, generator: random.Random, target: str) -> str:
    return legal_text(form, generator.randrange, parse_target(target))


def plain_texts(row: Row, generator: random.Random) -> Iterator[Asked]:
    """A legal text of each form, on every target; some with a guard."""
    for form in _forms(row, generator, 24):
        text = legal_text(form, generator.randrange)
        guard = generator.choice(("", "", "", "@%p3 ", "@!%p3 ", "@%r3 ")) if generator.randrange(3) == 0 else ""
        targets: tuple[str, ...] = TARGETS if generator.randrange(3) == 0 else (generator.choice(TARGETS),)
        for target in targets:
            yield Asked(family(row.name), guard + text, target)


def version_texts(row: Row, generator: random.Random) -> Iterator[Asked]:
    """A form of the row in the last PTX version before it, and in its first."""
    forms = _forms(row, generator, 24)
    for form in generator.sample(forms, min(3, len(forms))):
        for target in TARGETS:
            if not form.supports(parse_target(target)):
                continue
            text = _legal(form, generator, target)
            for name in VERSIONS:
                near = name == form.since_ptx or name == _before(form.since_ptx)
                if near and version(name) >= version(_FIRST_VERSION[target]):
                    yield Asked(family(row.name), text, target, name)


VERSIONS = (
    "7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "8.0", "8.1", "8.2", "8.3", "8.4", "8.5", "8.6",
    "8.7", "8.8", "9.0",
)  # fmt: skip


def _before(name: str) -> str:
    earlier = [each for each in VERSIONS if version(each) < version(name)]
    return earlier[-1] if earlier else ""


def changed_texts(rows: list[Row], generator: random.Random, most: int) -> Iterator[Asked]:
    """Texts of an instruction with its qualifiers changed: one replaced, left out, added, repeated or moved."""
    own = sorted({q for row in rows for slot in row.slots for q in slot if q}) or list(QUALIFIERS)
    forms = [form for row in rows for form in _forms(row, generator, 40)]
    for number in range(most):
        form = generator.choice(forms)
        qualifiers = list(form.qualifiers)
        pool = own if generator.randrange(3) else QUALIFIERS
        place = generator.randrange(len(qualifiers) + 1)
        match number % 6:
            case 0 if qualifiers:
                qualifiers[place - 1] = generator.choice(pool)
            case 1 if qualifiers:
                del qualifiers[place - 1]
            case 2 | 3:
                qualifiers.insert(place, generator.choice(pool))
            case 4 if len(qualifiers) > 1:
                qualifiers[place - 1], qualifiers[place - 2] = qualifiers[place - 2], qualifiers[place - 1]
            case _:
                qualifiers[-1:] = [generator.choice(pool)]
        target = generator.choice(TARGETS)
        operands = operand_texts(form, generator.randrange, parse_target(target))
        text = f"{'.'.join((form.name, *qualifiers))} {', '.join(operands)}".rstrip() + ";"
        yield Asked(family(form.name), text, target)


def variable_ways(form: Form) -> list[str]:
    """Addresses that name a variable of the one state space that an opcode names."""
    spaces = [VARIABLES[q] for q in form.qualifiers if q in VARIABLES]
    return [f"[{spaces[0]}{offset}]" for offset in ("", "+16", "+-16")] if len(spaces) == 1 else []


def operand_ways(rows: list[Row], generator: random.Random) -> Iterator[Asked]:
    """For each distinct list of operands of an instruction each operand in every way that PTX has, and one too few or
    too many."""
    distinct: dict[tuple[Role, ...], Form] = {}
    for row in rows:
        for form in _forms(row, generator, 24):
            distinct.setdefault(form.roles, form)
    for roles, form in distinct.items():
        target = _on(form, generator)
        for place in range(len(roles)):
            ways = list(WAYS) if len(distinct) < 4 else generator.sample(WAYS, 14)
            ways += variable_ways(form)
            ways += generator.sample(SPECIALS, len(SPECIALS) if form.name == "mov" else 2)
            for way in ways:
                operands = operand_texts(form, generator.randrange, parse_target(target))
                if place < len(operands):
                    operands[place] = way
                    yield Asked(family(form.name), f"{form.opcode} {', '.join(operands)};", target)
        operands = operand_texts(form, generator.randrange, parse_target(target))
        for changed in (operands[:-1], operands[1:], [*operands, "%r9"], [*operands, "7"]):
            yield Asked(family(form.name), f"{form.opcode} {', '.join(changed)}".rstrip() + ";", target)


def asked(seed: int = 0) -> list[Asked]:
    """All texts, each once for a target and version."""
    generator = random.Random(seed)
    by_family: dict[str, list[Row]] = {}
    for row in ROWS:
        by_family.setdefault(family(row.name), []).append(row)
    found: list[Asked] = []
    for rows in by_family.values():
        for row in rows:
            found += plain_texts(row, generator)
            found += version_texts(row, generator)
        spellings = sum(prod(len(slot) for slot in row.slots) for row in rows)
        found += changed_texts(rows, generator, min(30 + 3 * spellings, 400))
        found += operand_ways(rows, generator)
    return [each for each in dict.fromkeys(found) if comparable(each.text)]


def comparable(text: str) -> bool:
    """Whether a text of one instruction says all that ptxas judges, and ptxas takes it for that instruction."""
    return not _BESIDE_CALLS.match(text) and not _NO_MBARRIER.match(text)


# ptxas


_WIDE_REGISTERS = "8.3"  # the first PTX version with .b128
_NARROW_ADDRESS = re.compile(r"\[%(?!rd\d|[bus]64_)")
_WINDOW = re.compile(r"\.(?:shared|local|const|param)\b")


def _alone(text: str) -> bool:
    """Whether a text is judged by itself: a generic or global address that is not of 64 bits makes ptxas take the whole
    program for one of 32 bits, or not, by what else is in it; and setmaxnreg beside a text that is wrong is wrong."""
    if text.startswith("setmaxnreg") or ("async.bulk" in text and "global" in text.split("[", 1)[0]):
        return text.startswith("setmaxnreg") or bool(_NARROW_ADDRESS.search(text))
    return bool(_NARROW_ADDRESS.search(text)) and not _WINDOW.search(text.split("[", 1)[0])


def judge(texts: list[str], target: str, ptx: str, declarations: str = "") -> dict[str, bool]:
    """Whether ptxas takes each text, in a kernel with these declarations besides."""
    together = [text for text in texts if not _alone(text)]
    parts = [together[start : start + _AT_ONCE] for start in range(0, len(together), _AT_ONCE)]
    parts += [[text] for text in texts if _alone(text)]
    return {
        text: fine
        for part in parts
        for text, fine in zip(part, _judge_some(part, target, ptx, declarations), strict=True)
    }  # fmt: skip


def _wide(ptx: str) -> str:
    return ".reg .b128 %rq<256>;\n" if version(ptx) >= version(_WIDE_REGISTERS) else ""


def _judge_some(texts: list[str], target: str, ptx: str, declarations: str = "") -> list[bool]:
    head = _HEAD.format(version=ptx, target=target) + declarations
    head += _wide(ptx)
    first = head.count("\n") + 1
    left, taken = list(range(len(texts))), set[int]()
    while left:
        source = head + "\n".join(texts[number] for number in left) + "\nret;\n}\n"
        run = subprocess.run(
            ["ptxas", "-arch", target, "-", "-o", "/dev/null"],
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode == 0:
            taken.update(left)
            break
        errors = [(int(line) - first, said) for line, said in _LINE.findall(run.stdout + run.stderr)]
        stop = [place for place, said in errors if "syntax error" in said]  # what is said behind it counts for nothing
        places = {place for place, _ in errors if not stop or place <= stop[0]}
        wrong = {left[place] for place in places if 0 <= place < len(left)}
        if not wrong and len(left) == 1:
            break
        if not wrong:  # an error without a place
            half = len(left) // 2
            for part in (left[:half], left[half:]):
                judged = _judge_some([texts[number] for number in part], target, ptx, declarations)
                taken.update(number for number, fine in zip(part, judged, strict=True) if fine)
            break
        left = [number for number in left if number not in wrong]
    return [number in taken for number in range(len(texts))]


# Why a verdict counts for nothing

_RUNS = 24
_DESTINATION = re.compile(r"^(?:@\S+ )?\S+ (\{[^}]*\}|[^,;\[]+)[,;]")
_STORES = {
    "p": "{{selp.u32 %r255, 1, 2, {0}; st.volatile.global.u32 [glo], %r255;}}",
    "rs": "u16", "r": "u32", "f": "f32", "rd": "u64", "fd": "f64", "rq": "b128",
}  # fmt: skip


def reason(text: str, target: str, ptx: str, taken: bool, declarations: str = "") -> str:
    """Why a verdict of ptxas says nothing about a text; "" for one that holds.

    "random": of `_RUNS` runs some take it and some do not. "crash": ptxas takes it among others, and is killed by a
    signal where it stands alone or something uses the results. "no code": ptxas takes it, and its machine code is what
    it is without the text, although something uses the results.
    """
    answers = [_code(text, declarations, "", target, ptx) for _ in range(_RUNS)]
    if len({code is None for code in answers}) > 1:
        return "random"
    used = _uses(text)
    with_text = _code(text, declarations, used, target, ptx)
    if with_text is None:
        return "crash" if taken else ""
    return "no code" if with_text == _code("", declarations, used, target, ptx) else ""


def _uses(text: str) -> str:
    """Instructions that store the registers that a text may write."""
    match = _DESTINATION.match(text)
    stores = []
    for prefix, name in re.findall(r"(?=%(rs|rd|rq|fd|p|r|f)\d)(%\w+)", match[1] if match else ""):
        kind = _STORES[prefix]
        stores.append(kind.format(name) if "{" in kind else f"st.volatile.global.{kind} [glo], {name};")
    return "\n".join(stores)


def _code(text: str, declarations: str, behind: str, target: str, ptx: str) -> bytes | None:
    """The machine code of a kernel of a text and what stands behind it; None where ptxas makes none."""
    source = f"{_HEAD.format(version=ptx, target=target)}{declarations}{_wide(ptx)}{text}\n{behind}\nret;\n}}\n"
    with tempfile.NamedTemporaryFile() as file:
        command = ["ptxas", "-arch", target, "-", "-o", file.name]
        run = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        return Path(file.name).read_bytes() if run.returncode == 0 else None


def mark() -> None:
    """Writes the column `reason` of the table anew, and keeps its verdicts."""
    rows = thread_verdicts()
    for row in rows:
        given, taken = (row["ptx"], row["target"], row["version"]), row["accepted"] == "1"
        row["reason"] = "" if takes(*given) == taken else reason(*given, taken)
    write([(row["ptx"], row["target"], row["version"], row["accepted"], row["reason"]) for row in rows])


def write(rows: list[tuple[str, str, str, str, str]], table: Path = TABLE) -> None:
    """Writes a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("ptx", "target", "version", "accepted", "reason"))
    writer.writerows(rows)
    table.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{table}: {len(rows):,} texts, {table.stat().st_size:,} bytes")


def main() -> None:
    if "--mark" in sys.argv[1:]:
        mark()
        return
    questions = asked()
    if "--count" in sys.argv[1:]:
        for name, count in Counter(each.family for each in questions).most_common():
            print(f"  {name:12}{count:8,}")
        print(f"{len(questions):,} texts")
        return
    groups: dict[tuple[str, str], list[Asked]] = {}
    for each in questions:
        groups.setdefault((each.target, each.version), []).append(each)
    verdicts: dict[Asked, bool] = {}
    for (target, ptx), members in groups.items():
        judged = judge([each.text for each in members], target, ptx)
        verdicts.update((each, judged[each.text]) for each in members)
    rows = []
    for each in questions:
        given, taken = each[1:], verdicts[each]
        rows.append((*given, str(int(taken)), "" if takes(*given) == taken else reason(*given, taken)))
    write(rows)


if __name__ == "__main__":
    main()
