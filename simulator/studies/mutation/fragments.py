"""Mutants of matrix instructions: registers of fragments, `.trans`, selectors, metadata, steps of k, accumulators."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from isa.forms.mma import is_mma
from isa.ptx.instruction import Address, Operand, Register, declared
from simulator.studies.mutation.mutant import VALUE, Mutant, operator, word
from simulator.studies.mutation.subject import Site, Subject
from simulator.studies.mutation.text import Edit, Span, behind, replaced

NEAR = 8  # matrix instructions within which operands are exchanged: those of one tile
METADATA = "e"  # the role of the metadata of mma.sp and wgmma.sp
SELECTOR = "f"
_HALVES_SWAPPED, _HALVES_IN_ORDER = 0x1032, 0x3210  # of prmt


def _matrix(subject: Subject) -> list[Site]:
    return [site for site in subject.sites if site.form.is_matrix]


def _swap(site: Site, roles: tuple[str, ...], first: int, second: int) -> list[Edit]:
    edits = []
    for role in roles:
        span = site.operand(role)
        elements = site.statement.elements(span) if span else ()
        if second < len(elements) and elements[first].text != elements[second].text:
            edits += [
                replaced(elements[first], elements[second].text),
                replaced(elements[second], elements[first].text),
            ]
    return edits


def _element_texts(site: Site, role: str) -> tuple[Span, ...]:
    span = site.operand(role)
    return site.statement.elements(span) if span else ()


def _swaps(subject: Subject, role: str, name: str) -> Iterator[Mutant]:
    for site in _matrix(subject):
        elements = _element_texts(site, role)
        for first, second in combinations(range(min(len(elements), 4)), 2):
            edits = _swap(site, (role,), first, second)
            if edits:
                one, two = elements[first].text, elements[second].text
                linked = site.registers(role)
                near = subject.feeders(site, {linked[first], linked[second]} if len(linked) > second else ())
                what = f"registers {first} and {second} of {role} are swapped"
                fix = (("swap|exchang", word(one), word(two)), ("swap|exchang", rf"registers {first} and {second}"))
                yield Mutant(name, what, tuple(edits), (site.line,), frozenset(near), fix)


@operator("swap-a", VALUE)
def swapped_a(subject: Subject) -> Iterator[Mutant]:
    """Two registers of A swapped in one mma."""
    return _swaps(subject, "a", "swap-a")


@operator("swap-b", VALUE)
def swapped_b(subject: Subject) -> Iterator[Mutant]:
    """Two registers of B swapped in one mma."""
    return _swaps(subject, "b", "swap-b")


@operator("swap-d", VALUE)
def swapped_accumulators(subject: Subject) -> Iterator[Mutant]:
    """Two registers of the result swapped in one mma: its sums go on in each other's place."""
    for site in _matrix(subject):
        elements = _element_texts(site, "d")
        for first, second in combinations(range(min(len(elements), 4)), 2):
            edits = _swap(site, ("d",), first, second)
            if edits:
                one, two = elements[first].text, elements[second].text
                fix = (("swap|exchang", word(one), word(two)), ("swap|exchang", rf"registers {first} and {second}"))
                what = f"registers {first} and {second} of d are swapped"
                near = _sole_readers(subject, site, (first, second))
                yield Mutant("swap-d", what, tuple(edits), (site.line,), frozenset(near), fix)


def _sole_readers(subject: Subject, site: Site, places: tuple[int, int]) -> set[int]:
    """The line that reads two registers of the result, if it is one for both: swapping them there is the same."""
    linked = site.registers("d")
    if len(linked) <= max(places):
        return set()
    readers = [{each.line for each in subject.readers.get(linked[place], ())} for place in places]
    return readers[0] if readers[0] == readers[1] and len(readers[0] - {site.line}) == 1 else set()


@operator("exchange", VALUE)
def exchanged(subject: Subject) -> Iterator[Mutant]:
    """A or B of two neighbouring mma exchanged."""
    sites = _matrix(subject)
    for place, first in enumerate(sites):
        for second in sites[place + 1 : place + 1 + NEAR]:
            if first.form is not second.form and first.form.opcode != second.form.opcode:
                continue
            for role in ("a", "b"):
                one, two = first.operand(role), second.operand(role)
                if one and two and one.text != two.text and subject.straight(first, second):
                    edits = (replaced(one, two.text), replaced(two, one.text))
                    what = f"{role} of the products in lines {first.line} and {second.line} is exchanged"
                    fix = (("exchang|swap", str(first.line), str(second.line)), ("exchang|swap", rf"\b{role}\b"))
                    yield Mutant("exchange", what, edits, (first.line, second.line), frozenset(), fix)


@operator("trans", VALUE)
def transposed(subject: Subject) -> Iterator[Mutant]:
    """`.trans` added to an ldmatrix, or taken away."""
    for site in subject.sites:
        if site.name == "ldmatrix" and ".b16" in site.form.opcode:
            opcode = site.statement.opcode
            has = ".trans" in opcode.text
            shared = opcode.text.index(".shared")
            new = opcode.text.replace(".trans", "") if has else f"{opcode.text[:shared]}.trans{opcode.text[shared:]}"
            what = f".trans is {'missing' if has else 'too many'}"
            yield Mutant("trans", what, (replaced(opcode, new),), (site.line,), frozenset(), ((r"\.trans",),))


@operator("selector", VALUE)
def other_selector(subject: Subject) -> Iterator[Mutant]:
    """Another sparsity selector."""
    for site in _matrix(subject):
        span, right = site.operand(SELECTOR), site.immediate(SELECTOR)
        if not site.form.is_sparse or span is None or right is None:
            continue
        count = site.form.metadata.selectors if is_mma(site.form) else site.form.role(SELECTOR).limit
        for other in range(count):
            if other != right:
                fix = (("selector", word(str(right))), ("selector", f"another|other than {other}"))
                what = f"the selector is {other}, not {right}"
                yield Mutant("selector", what, (replaced(span, str(other)),), (site.line,), frozenset(), fix)


@operator("metadata-of-another", VALUE)
def metadata_of_another(subject: Subject) -> Iterator[Mutant]:
    """The metadata of another mma."""
    sites = [site for site in _matrix(subject) if site.operand(METADATA)]
    for place, site in enumerate(sites):
        own = site.operand(METADATA)
        assert own is not None
        others = {
            span.text for other in sites[max(place - NEAR, 0) : place + NEAR] if (span := other.operand(METADATA))
        }
        for other in sorted(others - {own.text}):
            fix = (("metadata", word(own.text)), ("metadata", "another (mma|product|row|k block)|row|k block|step"))
            what = f"metadata is {other}, not {own.text}"
            feeders = subject.feeders(site, site.registers(METADATA))
            yield Mutant("metadata-of-another", what, (replaced(own, other),), (site.line,), frozenset(feeders), fix)


def metadata_loads(subject: Subject) -> list[tuple[Site, set[int]]]:
    """The loads of metadata, each with the lines of the products that read it, moves and packing between included."""
    found: dict[int, tuple[Site, set[int]]] = {}
    by_index = {site.item.index: site for site in subject.sites}
    for product in _matrix(subject):
        work, seen = list(product.registers(METADATA)), set()
        while work:
            name = work.pop()
            if name in seen:
                continue
            seen.add(name)
            for writer in subject.writers.get(name, ()):
                site = by_index.get(writer.index)
                if site is not None and site.name in ("ld", "ldmatrix"):
                    found.setdefault(writer.index, (site, set()))[1].add(product.line)
                elif site is not None and site.name in ("mov", "or", "shl", "cvt", "prmt", "selp"):
                    work += writer.reads
    return list(found.values())


@operator("codes-order", VALUE)
def order_of_codes(subject: Subject) -> Iterator[Mutant]:
    """The two halves of a word of metadata swapped behind its load."""
    for site, products in metadata_loads(subject):
        span, operand = site.operand("d"), site.instruction.by_role.get("d")
        register = declared(span.text) if span and isinstance(operand, Register) else None
        if span is None or register is None or register.width != 32 or site.statement.guard is not None:
            continue
        edit = behind(site.statement, f"prmt.b32 {span.text}, {span.text}, {span.text}, {_HALVES_SWAPPED:#x};")
        fix = (("order", "code"), ("halves|halfword|16 bits",), ("codes", "swap|exchang"), (f"{_HALVES_IN_ORDER:#x}",))
        near = frozenset(products)
        yield Mutant("codes-order", "the halves of a word of metadata are swapped", (edit,), (site.line,), near, fix)


@operator("step-left-out", VALUE)
def left_out(subject: Subject) -> Iterator[Mutant]:
    """A product left out."""
    for site in _matrix(subject):
        if site.name != "wgmma":
            fix = (("left out|missing|dropped|never|lacks", "product|mma|step|k tile|k block"),)
            near = frozenset(_chain(subject, site))
            yield Mutant("step-left-out", "a product is left out", (site.statement.dropped(),), (site.line,), near, fix)


@operator("step-doubled", VALUE)
def doubled(subject: Subject) -> Iterator[Mutant]:
    """A product added twice."""
    for site in _matrix(subject):
        text = f"{site.statement.text};"
        if site.name != "wgmma" and "\n" not in text:
            fix = (("twice|doubled|two times|again|too many", "product|mma|step|k tile|k block|add"),)
            edit = (behind(site.statement, text),)
            yield Mutant("step-doubled", "a product is added twice", edit, (site.line,), frozenset(), fix)


def _chain(subject: Subject, site: Site) -> set[int]:
    """The products of the same sums: those that give what this one adds to, and those that add to its result."""
    lines = {each.line for name in site.registers("c") for each in subject.writers.get(name, ())}
    lines |= {each.line for name in site.registers("d") for each in subject.readers.get(name, ())}
    lines |= {each.line for each in _matrix(subject) if isinstance(_sums(each), Address) and _sums(each) == _sums(site)}
    products = {each.line for each in _matrix(subject)}
    return lines & products


def _sums(site: Site) -> Operand | None:
    """Where a product adds to: registers, or an address in Tensor Memory."""
    return site.instruction.by_role.get("d")


@operator("not-cleared", VALUE)
def not_cleared(subject: Subject) -> Iterator[Mutant]:
    """A move that clears accumulators left out."""
    sums = {name for site in _matrix(subject) for role in ("c", "d") for name in site.registers(role)}
    for site in subject.sites:
        if site.name != "mov" or not set(site.item.writes) & sums or site.immediate("a") not in (0, None):
            continue
        readers = {line for name in site.item.writes for line in _lines(subject, name)}
        near = frozenset(readers | {each.line for name in site.item.writes for each in subject.writers[name]})
        fix = (("clear|zero|write it first|initiali[sz]|written before",),)
        yield Mutant("not-cleared", "sums are not cleared", (site.statement.dropped(),), (site.line,), near, fix)


def _lines(subject: Subject, name: str) -> set[int]:
    return {each.line for each in subject.readers.get(name, ())}


@operator("scale-d", VALUE)
def scale_d(subject: Subject) -> Iterator[Mutant]:
    """wgmma or tcgen05 adds to what it should overwrite, or overwrites what it should add to."""
    for site in _matrix(subject):
        role = "scale_d" if site.name == "wgmma" else "enable"
        span = site.operand(role) if role in site.instruction.by_role else None
        if span is None:
            continue
        text = span.text.lstrip("!") if span.text.startswith("!") else f"!{span.text}"
        near = frozenset(subject.feeders(site, site.registers(role)))
        predicates = [name for name in site.item.reads if name.startswith("%p")]
        near |= frozenset(subject.feeders(site, predicates))
        fix = (("scale-?_?d|enable-input-d|accumulat|added|overwrit|clear",), ("equal", "is meant"))
        yield Mutant("scale-d", f"{role} is inverted", (replaced(span, text),), (site.line,), near, fix)


@operator("scale-factor", VALUE)
def scale_factors(subject: Subject) -> Iterator[Mutant]:
    """Scale factors of A and B exchanged, or those of another column."""
    for site in _matrix(subject):
        one = site.operand("scale_a") if "scale_a" in site.instruction.by_role else None
        two = site.operand("scale_b") if "scale_b" in site.instruction.by_role else None
        if one and two and one.text.startswith("[") and one.text != two.text:
            edits = (replaced(one, two.text), replaced(two, one.text))
            fix = (("scale",),)
            what = "scale factors of A and B are exchanged"
            yield Mutant("scale-factor", what, edits, (site.line,), frozenset(), fix)
