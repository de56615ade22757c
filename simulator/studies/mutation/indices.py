"""Mutants of addresses and of control: offsets, constants of index arithmetic, bounds of loops, guards, atomics,
shuffles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from isa.forms.record import Space
from isa.forms.synchronisation import is_atomic
from isa.ptx.instruction import Address, Immediate, Register
from simulator.program.kernel import Branch
from simulator.studies.mutation.fragments import metadata_loads
from simulator.studies.mutation.mutant import BOUNDS, VALUE, Mutant, operator, word
from simulator.studies.mutation.subject import Site, Subject
from simulator.studies.mutation.text import Edit, Span, replaced

_OFFSET = re.compile(r"\[\s*([\w$%.]+)\s*(?:\+\s*(-?\w+)\s*)?\]")
ROW = 64  # bytes of a short row of a tile in shared memory
FEW = 12  # lines that a constant or a comparison decides about; one that decides about more has no place of its own
NEARBY = 64  # instructions that a branch around guarded accesses goes around at most
SIXTEEN = 16  # bytes that a lane copies, and that a row of ldmatrix has
_TYPES = {"u32": "u32", "s32": "s32", "f32": "f32", "u64": "u64", "f64": "f64", "b32": "b32"}
_COMPARISONS = {
    "lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "lo": "ls", "ls": "lo", "hi": "hs", "hs": "hi",
}  # fmt: skip


def _moved(span: Span, delta: int) -> tuple[Edit, int, int] | None:
    """An address with another offset; the right one and the wrong one. None where the offset is no plain number."""
    match = _OFFSET.fullmatch(span.text)
    if match is None:
        return None
    try:
        right = int(match[2], 0) if match[2] else 0
    except ValueError:
        return None
    return replaced(span, f"[{match[1]}+{right + delta}]"), right, right + delta


def _distance(delta: int, right: int, wrong: int) -> tuple[tuple[str, ...], ...]:
    """What a repair of a moved address says: the distance, in bytes or rows or elements, or the right offset."""
    offset = (word(f"+{right}"),) if right else ("without|no offset|" + word("+0"),)
    return (
        (rf"\b{abs(delta)} bytes?\b",), (r"\bone element\b|\b1 element\b",), offset,
        ("offset", word(str(right))), (rf"[+-]{abs(delta)}\b",), (r"\bone row\b|\b(next|previous) row\b",),
    )  # fmt: skip


def _data_accesses(subject: Subject) -> Iterator[tuple[Site, Span, int]]:
    """The accesses to data in memory: instruction, the address's text, bytes of one lane."""
    for site in subject.sites:
        access = site.form.access
        if access is None or site.name in ("mbarrier", "tensormap", "tcgen05", "bar") or not access.bytes:
            continue
        if access.space not in (Space.SHARED, Space.GLOBAL) or ".param" in site.form.opcode:
            continue
        for span, address in site.addresses():
            if address.base is not None:
                yield site, span, access.row_bytes or access.bytes


@operator("offset", VALUE)
def moved_addresses(subject: Subject) -> Iterator[Mutant]:
    """The offset of an address moved by one access, by 16 bytes, by a row."""
    metadata = {site.item.index for site, _ in metadata_loads(subject)}
    for site, span, size in _data_accesses(subject):
        if site.item.index in metadata:
            continue
        for delta in sorted({size, max(SIXTEEN, size), ROW, -size}):
            yield from _moved_mutant(subject, site, span, delta, "offset", frozenset())


def _moved_mutant(
    subject: Subject, site: Site, span: Span, delta: int, name: str, more: frozenset[int]
) -> Iterator[Mutant]:
    moved = _moved(span, delta)
    if moved is None:
        return
    edit, right, wrong = moved
    bases = [address.base.name for each, address in site.addresses() if each == span and address.base]
    near = frozenset(subject.feeders(site, bases) | subject.index_chain(bases)) | more
    what = f"the address is {delta:+} bytes off"
    yield Mutant(name, what, (edit,), (site.line,), near, _distance(delta, right, wrong))


@operator("metadata-shifted", VALUE)
def shifted_metadata(subject: Subject) -> Iterator[Mutant]:
    """Metadata loaded from another row or block of k."""
    for site, products in metadata_loads(subject):
        access = site.form.access
        for span, address in site.addresses():
            if address.base is None or access is None:
                continue
            size = access.row_bytes or access.bytes
            for delta in (size, -size, 8 * size, 2 * ROW):
                for mutant in _moved_mutant(subject, site, span, delta, "metadata-shifted", frozenset(products)):
                    fix = (*mutant.fix, ("metadata", "row|k block|step"))
                    yield Mutant("metadata-shifted", mutant.what, mutant.edits, mutant.lines, mutant.repairs, fix)


@operator("index-constant", VALUE)
def index_constants(subject: Subject) -> Iterator[Mutant]:
    """A constant of index arithmetic changed: the amount of a shift, a stride, a mask of xor or and."""
    for site in subject.sites:
        if site.name not in ("shl", "mul", "mad", "xor", "and", "add", "shr"):
            continue
        role = "b"
        right = site.immediate(role) if role in site.instruction.by_role else None
        span = site.operand(role) if right is not None else None
        if span is None or right is None or not 0 < abs(right) < 1 << 20:
            continue
        arithmetic, accesses = subject.reached(site.item)
        if not 0 < len(accesses) <= FEW:
            continue
        for wrong in _other_constants(site.name, right):
            fix = (
                (word(str(right)),),
                (word(hex(right)),),
                ("stride|leading dimension|pitch|shift|element|row|bytes",),
            )
            near = frozenset(arithmetic | accesses)
            what = f"the constant is {wrong}, not {right}"
            yield Mutant("index-constant", what, (replaced(span, str(wrong)),), (site.line,), near, fix)


def _other_constants(name: str, right: int) -> tuple[int, ...]:
    if name in ("shl", "shr"):
        return tuple(value for value in (right - 1, right + 1) if value > 0)
    if name in ("mul", "mad"):
        return (right + 16, 2 * right)
    if name in ("xor", "and"):
        return (right ^ (right & -right),) if right & (right - 1) else (right << 1,)
    return (right + 16, right - 16) if right % 16 == 0 else (right + 1,)


# Control


def _loops(subject: Subject) -> Iterator[tuple[Branch, Site]]:
    """The branches back, each with the comparison that decides whether it is taken."""
    by_index = {site.item.index: site for site in subject.sites}
    for branch, _ in subject.branches:
        if branch.target <= branch.index and branch.guard is not None:
            for writer in subject.writers.get(branch.guard.predicate.name, ()):
                site = by_index.get(writer.index)
                if site is not None and site.name == "setp" and branch.target <= writer.index < branch.index:
                    yield branch, site


@operator("loop-bound", VALUE)
def loop_bounds(subject: Subject) -> Iterator[Mutant]:
    """One turn of a loop too many, or one too few."""
    for branch, site in _loops(subject):
        counters = [site.instruction.by_role.get(role) for role in ("a", "b")]
        names = {each.name for each in counters if isinstance(each, Register)}
        steps, near = _steps(subject, names, branch)
        lines = frozenset({branch.line, site.line} | near)
        fix = (("turn|iteration|trip|bound|k tile|loop",), ("left out|twice|too many|too few|one more|one fewer",))
        right, span = site.immediate("b"), site.operand("b")
        if right is not None and span is not None:
            for wrong in sorted({right + sign * step for step in steps for sign in (1, -1)}):
                what = f"the bound is {wrong}, not {right}"
                yield Mutant("loop-bound", what, (replaced(span, str(wrong)),), (site.line,), lines, fix)
        yield from _compared(site, "loop-bound", lines, fix)


def _steps(subject: Subject, names: set[str], branch: Branch) -> tuple[set[int], set[int]]:
    """By how much the counters of a loop change in a turn, and the lines that set and change them."""
    steps, lines = set(), set()
    for name in names:
        for writer in subject.writers.get(name, ()):
            lines.add(writer.line)
            operand = writer.instruction.by_role.get("b")
            if writer.opcode.startswith("add") and isinstance(operand, Immediate) and operand.value:
                value = operand.value - (1 << 32) if operand.value >> 31 == 1 else operand.value
                steps.add(abs(value))
    return steps or {1}, lines


def _compared(site: Site, name: str, near: frozenset[int], fix: tuple[tuple[str, ...], ...]) -> Iterator[Mutant]:
    """A comparison that takes in equality, or no longer does."""
    opcode = site.statement.opcode
    words = opcode.text.split(".")
    if len(words) > 1 and words[1] in _COMPARISONS:
        other = _COMPARISONS[words[1]]
        new = ".".join([words[0], other, *words[2:]])
        right = (rf"\.{words[1]}\b",)
        yield Mutant(name, f".{other} for .{words[1]}", (replaced(opcode, new),), (site.line,), near, (*fix, right))


@operator("compare", BOUNDS)
def comparisons(subject: Subject) -> Iterator[Mutant]:
    """A comparison that guards something takes in equality, or no longer does: lt for le, ge for gt."""
    loops = {site.item.index for _, site in _loops(subject)}
    for site in subject.sites:
        if site.name == "setp" and site.item.index not in loops:
            near = frozenset(subject.guarded_by(site.item.writes))
            if len(near) > FEW:
                continue
            fix = (("guard|bound|edge|within|compar|predicate",),)
            yield from _compared(site, "compare", near, fix)


@operator("guard-dropped", BOUNDS)
def unguarded(subject: Subject) -> Iterator[Mutant]:
    """An access to memory, or the way around some, without its guard."""
    for site in subject.sites:
        guard, access = site.statement.guard, site.form.access
        if guard and access and access.space in (Space.SHARED, Space.GLOBAL) and site.name in ("ld", "st", "cp", "red"):
            near = _comparison(subject, site.item.guard.predicate.name if site.item.guard else "")
            fix = (("guard|bound|within|predicate|edge|one thread",),)
            what = "the guard of an access is dropped"
            yield Mutant("guard-dropped", what, (replaced(guard, ""),), (site.line,), frozenset(near), fix)
    for branch, statement in subject.branches:
        if branch.guard is not None and branch.target > branch.index:
            skipped = _skipped(subject, branch)
            if not 0 < len(skipped) <= FEW or branch.target - branch.index > NEARBY:
                continue
            near = _comparison(subject, branch.guard.predicate.name) | skipped
            fix = (("guard|bound|within|predicate|edge|branch",),)
            what = "the branch around some instructions is dropped"
            yield Mutant("guard-dropped", what, (statement.dropped(),), (branch.line,), frozenset(near), fix)


def _comparison(subject: Subject, name: str) -> set[int]:
    return {writer.line for writer in subject.writers.get(name, ())}


def _skipped(subject: Subject, branch: Branch) -> set[int]:
    """The accesses to memory that a branch goes around."""
    return {
        site.line
        for site in subject.sites
        if branch.index < site.item.index < branch.target and site.form.access is not None
    }


@operator("plain-atomic", VALUE)
def plain_atomics(subject: Subject) -> Iterator[Mutant]:
    """An atomic addition as a load, an addition and a store."""
    for site in subject.sites:
        form = site.form
        if not (is_atomic(form) or form.opcode.startswith("red.")) or "add" not in form.opcode.split("."):
            continue
        address = next((span for span, _ in site.addresses()), None)
        value, kind = site.operand("b"), _TYPES.get(form.type_name)
        if address is None or value is None or kind is None or site.statement.guard is not None:
            continue
        space = next((f".{q}" for q in form.opcode.split(".") if q in ("global", "shared")), "")
        register = f".b{form.width}"
        result = site.operand("d")
        keep = f" mov{register} {result.text}, mutant_t;" if result else ""
        text = (
            f"{{ .reg {register} mutant_t, mutant_u; ld{space}.{kind} mutant_t, {address.text};"
            f" add.{kind} mutant_u, mutant_t, {value.text}; st{space}.{kind} {address.text}, mutant_u;{keep} }}"
        )
        edit = Edit(site.statement.start, site.statement.end + 1, text)
        fix = (("atom|red\\b",),)
        yield Mutant("plain-atomic", "an atomic operation is plain", (edit,), (site.line,), frozenset(), fix)


@operator("shuffle", VALUE)
def shuffles(subject: Subject) -> Iterator[Mutant]:
    """A shuffle by another distance, or with a mask that lacks lanes."""
    for site in subject.sites:
        if site.name != "shfl":
            continue
        consumers = subject.consumers(site.item)
        near = frozenset(consumers if len(consumers) == 1 else ())
        for role, wrongs, about in (("b", _farther, "distance|delta|lane"), ("membermask", _less, "mask")):
            span, right = _constant(subject, site, role)
            if span is None or right is None:
                continue
            for wrong in wrongs(right):
                if wrong != right:
                    fix = ((about,), (word(str(right)),))
                    what = f"{role} is {wrong:#x}, not {right:#x}"
                    yield Mutant("shuffle", what, (replaced(span, str(wrong)),), (site.line,), near, fix)


def _farther(distance: int) -> tuple[int, ...]:
    return 2 * distance, distance // 2


def _less(mask: int) -> tuple[int, ...]:
    return (mask & 0xFFFF,)


def _constant(subject: Subject, site: Site, role: str) -> tuple[Span | None, int | None]:
    """An operand that is a constant, or a register that one move of a constant writes."""
    right = site.immediate(role) if role in site.instruction.by_role else None
    if right is None:
        writers = [each for name in site.registers(role) for each in subject.writers.get(name, ())]
        moved = len(writers) == 1 and writers[0].opcode.startswith("mov")
        operand = writers[0].instruction.by_role.get("a") if moved else None
        right = operand.value if isinstance(operand, Immediate) else None
    return site.operand(role), right


def same_address(first: Site, second: Site) -> bool:
    """Whether two instructions name the same address by the same register and offset."""
    mine = {(a.base, a.offset) for _, a in first.addresses() if isinstance(a, Address)}
    return bool(mine & {(a.base, a.offset) for _, a in second.addresses()})
