"""What a checker finds, in words: the findings of the order checker, of traces and of launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.check.accesses import DEALLOC, Access, describe
from simulator.check.links import Link, Missing
from simulator.check.order_result import Overlap, Result
from simulator.check.rules import CHECK_RULES, UNDEFINED_FIXES, stated


@dataclass(frozen=True)
class Finding:
    """Something that a trace may not rely on.

    Attributes:
        rule: the name of the broken rule, in `simulator.check.rules` or `isa.undefined`.
        line: of the instruction that breaks the rule; of a pair the later one. 0: none.
        other: line of the earlier instruction of a pair; 0: none.
        what: what happens there, and why it is not defined.
        fix: what to insert or change where.
        states: the rule in words.
        section: where the rule is stated.
        count: how often it happened.
    """

    rule: str
    line: int
    other: int
    what: str
    fix: str
    states: str
    section: str
    count: int = 1


def as_finding(name: str, line: int, other: int, what: str, fix: str = "", count: int = 1) -> Finding:
    """A finding by the name of its rule; without a fix it has that of the rule."""
    rule, section = stated(name)
    default_fix = CHECK_RULES[name].fix if name in CHECK_RULES else UNDEFINED_FIXES.get(name, "see the rule")
    return Finding(name, line, other, what, fix or default_fix, rule, section, count)


def of_order(result: Result, ctas: int) -> Iterator[Finding]:
    """What the order checker noted, of a trace or a cluster of so many CTAs."""
    used = {
        missing.ends.before.line for missing in result.missing.values() if missing.ends.after.operation.kind != DEALLOC
    }
    for key, missing in result.missing.items():
        if missing.ends.after.operation.kind != DEALLOC or missing.ends.before.line not in used:  # said once
            yield _of_missing(missing, ctas, result.counts[key])
    for unwritten in result.unwritten.values():
        access = unwritten.access
        where = describe(access.space, access.cta, unwritten.cells, ctas)
        yield as_finding(
            "tmem-read-before-write",
            access.line,
            0,
            f"{_name(access)} reads {where}{_role(access)}, which nothing wrote",
        )
    for overlap in result.overlaps.values():
        yield _of_overlap(overlap, ctas)
    for early in result.early.values():
        line = early.allocation.line
        what = (
            f"{_name(early.access)} uses columns that tcgen05.alloc of line "
            f"{line} gives to another warp, and nothing orders the two"
        )
        yield as_finding("tmem-alloc-unordered", early.access.line, line, what)
    for stray in result.strays.values():
        what = (
            f"{stray.event.kind} uses the mbarrier at shared[{stray.place[1]}], "
            f"which line {stray.init_line} of another warp initialises"
        )
        yield as_finding("mbarrier-init-unordered", stray.event.line, stray.init_line, what)
    raced = {missing.ends.before.line for missing in result.missing.values()}
    for operation, peer in result.unfinished:
        name, cta = operation.event.kind, operation.event.cta
        if peer:
            yield as_finding(
                "peer-exited", operation.line, 0, f"CTA {cta ^ 1} ends without having waited for {name} of CTA {cta}"
            )
        elif operation.line not in raced:
            yield as_finding(
                "unfinished-at-exit", operation.line, 0, f"CTA {cta} ends without having waited for {name}"
            )


def of_fences_alone(result: Result, *, reads: bool) -> set[tuple[str, int, int]]:
    """The findings (rule, line, other) of pairs of which the first is known to be complete when the second is issued,
    by arrivals that release and waits that acquire: nothing but a tcgen05.fence is missing.

    Args:
        reads: whether the second may read. A write is not performed before it is issued, so none of a value that the
            first has read.
    """
    alone: dict[tuple[str, int, int], bool] = {}
    for missing in result.missing.values():
        before, after = missing.ends.before, missing.ends.after
        key = missing.link.value, after.line, before.line
        fences = missing.seen and missing.link in (Link.BEFORE, Link.AFTER)
        alone[key] = alone.get(key, True) and fences and (reads or (after.write and not before.write))
    return {key for key, found in alone.items() if found}


def _of_missing(missing: Missing, ctas: int, count: int) -> Finding:
    before, after, cells, _ = missing.ends
    where = describe(after.space, after.cta, cells, ctas)
    does, did = ("writes" if after.write else "reads"), ("writes" if before.write else "reads")
    if after.operation.kind == DEALLOC:
        does = "gives back"
    what = (
        f"{_name(after)} {does} {where}{_role(after)}, which {_name(before)} "
        f"of line {before.line} {did}{_role(before)}: {missing.reason}"
    )
    return as_finding(missing.link.value, after.line, before.line, what, missing.fix, count)


def _of_overlap(overlap: Overlap, ctas: int) -> Finding:
    first, second = overlap.first, overlap.second
    where = describe("tmem", first.cta, overlap.cells, ctas)
    return as_finding("tmem-overlap", first.line, 0, f"{first.role} and {second.role} of {_name(first)} share {where}")


def _name(access: Access) -> str:
    return access.operation.event.kind


def _role(access: Access) -> str:
    return "" if access.role in ("cells", "bytes") else f" as {access.role}"
