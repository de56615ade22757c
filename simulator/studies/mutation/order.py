"""Mutants of synchronisation: barriers, waits, commits and fences that are dropped, moved or weakened.

What may be blamed besides the line itself are the two sides that are no longer in order, which `proof` finds by running
the mutant, and the other instructions of the same barrier: its initialisation, arrivals and waits agree on a protocol,
and who reads it cannot tell which of them was meant otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from isa.forms.record import Space, Time
from isa.forms.synchronisation import is_arrival, sees_other_threads
from simulator.studies.mutation.indices import same_address
from simulator.studies.mutation.mutant import ORDER, Fix, Mutant, operator
from simulator.studies.mutation.subject import Site, Subject
from simulator.studies.mutation.text import Edit, behind, replaced

_WARP = 32
_BARRIER = "bar\\.sync|barrier|__syncthreads"


def _dropped(name: str, site: Site, near: frozenset[int], fix: Fix) -> Mutant:
    return Mutant(name, f"{site.form.opcode} is dropped", (site.statement.dropped(),), (site.line,), near, fix)


def _number(site: Site) -> str:
    span = site.operand("a") if "a" in site.instruction.by_role else None
    return span.text if span else ""


def _barriers(subject: Subject) -> list[Site]:
    return [site for site in subject.sites if site.form.time is Time.BARRIER]


def _partners(subject: Subject, site: Site) -> frozenset[int]:
    """The lines of the other instructions of the same named barrier."""
    if _number(site) in ("0", ""):
        return frozenset()
    return frozenset(each.line for each in _barriers(subject) if _number(each) == _number(site))


def _handed_over(subject: Subject, site: Site) -> frozenset[int]:
    """Where threads wait for what others write to global memory (a lock, a flag): the lines of the accesses to global
    memory between the barriers before and behind this one. `trace` follows shared memory alone."""
    if not any(sees_other_threads(each.form) and _is_global(each) for each in subject.sites):
        return frozenset()
    places = sorted(each.item.index for each in _barriers(subject))
    low = max((place for place in places if place < site.item.index), default=-1)
    high = min((place for place in places if place > site.item.index), default=len(subject.kernel.items))
    return frozenset(each.line for each in subject.sites if low < each.item.index < high and _is_global(each))


def _is_global(site: Site) -> bool:
    return site.form.access is not None and site.form.access.space is Space.GLOBAL and "global" in site.form.opcode


@operator("barrier-dropped", ORDER)
def barrier_dropped(subject: Subject) -> Iterator[Mutant]:
    """A barrier of the CTA dropped."""
    for site in _barriers(subject):
        name = "arrive-dropped" if is_arrival(site.form) else "barrier-dropped"
        if name == "barrier-dropped":
            near = _partners(subject, site) | _handed_over(subject, site)
            yield _dropped(name, site, near, ((_BARRIER,),))


@operator("arrive-dropped", ORDER)
def arrive_dropped(subject: Subject) -> Iterator[Mutant]:
    """An arrival at a barrier of the CTA dropped."""
    for site in _barriers(subject):
        if is_arrival(site.form):
            fix = (("bar\\.arrive|barrier|arriv",),)
            yield _dropped("arrive-dropped", site, _partners(subject, site), fix)


@operator("barrier-moved", ORDER)
def barrier_moved(subject: Subject) -> Iterator[Mutant]:
    """A barrier of the CTA moved behind the next access to shared memory, or before the last one."""
    for site in _barriers(subject):
        text = f"{site.statement.text};"
        if "\n" in text or is_arrival(site.form):
            continue
        for step in (1, -1):
            other = _next_access(subject, site, step)
            if other is None or "\n" in other.statement.text:
                continue
            there = behind(other.statement, text)
            if step < 0:
                there = Edit(other.statement.start, other.statement.start, f"{text} ")
            edits = (site.statement.dropped(), there)
            what = f"{site.form.opcode} stands {'behind' if step > 0 else 'before'} line {other.line}"
            lines = (site.line, other.line)
            yield Mutant("barrier-moved", what, edits, lines, _partners(subject, site), ((_BARRIER,),))


def _next_access(subject: Subject, site: Site, step: int) -> Site | None:
    """The nearest access to shared memory in straight code behind (+1) or before (-1) an instruction."""
    ordered = sorted(subject.sites, key=lambda each: step * each.item.index)
    for other in ordered:
        if step * (other.item.index - site.item.index) <= 0:
            continue
        pair = (site, other) if step > 0 else (other, site)
        if not subject.straight(*pair):
            return None
        access = other.form.access
        copies = other.form.time is Time.COPY
        if copies or (access is not None and access.space is Space.SHARED and other.form.time is not Time.MBARRIER):
            return other
    return None


@operator("barrier-count", ORDER)
def barrier_counts(subject: Subject) -> Iterator[Mutant]:
    """A barrier that waits for another number of threads, or another barrier."""
    for site in _barriers(subject):
        near = _partners(subject, site)
        count, threads = site.operand("b") if "b" in site.instruction.by_role else None, site.immediate("b")
        fix = (("threads|count|number|barrier",),)
        if count is not None and threads is not None:
            for wrong in (threads + _WARP, threads - _WARP):
                if wrong > 0:
                    what = f"the barrier waits for {wrong} threads, not {threads}"
                    yield Mutant("barrier-count", what, (replaced(count, str(wrong)),), (site.line,), near, fix)
        number, right = site.operand("a"), site.immediate("a")
        if number is not None and right and threads is not None:
            what = f"the barrier is {right ^ 1}, not {right}"
            yield Mutant("barrier-count", what, (replaced(number, str(right ^ 1)),), (site.line,), near, fix)


@operator("warp-sync-dropped", ORDER)
def warp_sync_dropped(subject: Subject) -> Iterator[Mutant]:
    """`bar.warp.sync` dropped."""
    for site in subject.sites:
        if site.form.opcode.startswith("bar.warp.sync"):
            yield _dropped("warp-sync-dropped", site, frozenset(), (("bar\\.warp\\.sync|__syncwarp",),))


# mbarriers


def _mbarriers(subject: Subject) -> list[Site]:
    return [site for site in subject.sites if site.form.opcode.startswith("mbarrier.")]


def _protocol(subject: Subject, site: Site) -> frozenset[int]:
    """The lines of the instructions about mbarriers with which this one has to agree: those of the same address if
    others name it alike, else all, and the copies and commits that complete on one."""
    every = _mbarriers(subject)
    alike = [each for each in every if each is not site and same_address(each, site)]
    kinds = {each.form.opcode.split(".")[1] for each in (*alike, site)}
    chosen = alike if {"init", "arrive", "try_wait"} <= kinds else every
    copies = [each for each in subject.sites if {"mbarrier", "mbar"} & each.instruction.by_role.keys()]
    if any(each.form.time is Time.COPY_ARRIVAL for each in subject.sites):
        copies += [each for each in subject.sites if each.form.time in (Time.COPY, Time.COPY_ARRIVAL)]
    return frozenset(each.line for each in (*chosen, *copies))


def _mbarrier_words(*more: str) -> Fix:
    return tuple((each,) for each in ("mbarrier\\.arrive|arriv", "expect_tx|expect-tx|transaction", *more))


@operator("mbarrier-arrive", ORDER)
def mbarrier_arrivals(subject: Subject) -> Iterator[Mutant]:
    """An arrival at an mbarrier dropped, or one that expects other bytes."""
    for site in _mbarriers(subject):
        if site.form.opcode.startswith("mbarrier.arrive"):
            if not any(site.registers("state")):
                yield _dropped("mbarrier-arrive", site, _protocol(subject, site), _mbarrier_words())
            span, right = site.operand("tx_count") if "expect_tx" in site.form.opcode else None, None
            right = site.immediate("tx_count") if span else None
            for wrong in (right // 2, right + 16) if span and right else ():
                what = f"{wrong} bytes are expected, not {right}"
                near, fix = _protocol(subject, site), _mbarrier_words("bytes")
                yield Mutant("mbarrier-arrive", what, (replaced(span, str(wrong)),), (site.line,), near, fix)  # type: ignore[arg-type]


@operator("mbarrier-init", ORDER)
def mbarrier_counts(subject: Subject) -> Iterator[Mutant]:
    """An mbarrier that expects one arrival more or less, or is not initialised."""
    for site in _mbarriers(subject):
        if not site.form.opcode.startswith("mbarrier.init"):
            continue
        near = _protocol(subject, site)
        fix = (("arriv|count|expect",), ("mbarrier\\.init|initiali[sz]",))
        span, right = site.operand("count"), site.immediate("count")
        for wrong in (right + 1, right - 1) if span and right else ():
            if wrong > 0:
                what = f"{wrong} arrivals are expected, not {right}"
                yield Mutant("mbarrier-init", what, (replaced(span, str(wrong)),), (site.line,), near, fix)  # type: ignore[arg-type]
        yield _dropped("mbarrier-init", site, near, fix)


@operator("mbarrier-wait", ORDER)
def mbarrier_waits(subject: Subject) -> Iterator[Mutant]:
    """A wait for an mbarrier that goes on at once, or waits for the other phase."""
    for site in _mbarriers(subject):
        if not re.match(r"mbarrier\.(try|test)_wait", site.form.opcode):
            continue
        near = _protocol(subject, site)
        done, parity = site.operand("done"), site.operand("parity") if "parity" in site.instruction.by_role else None
        if done is not None and site.statement.guard is None:
            edit = behind(site.statement, f"setp.eq.u32 {done.text}, 0, 0;")
            fix = (("wait|mbarrier|phase",),)
            yield Mutant("mbarrier-wait", "nobody waits for the mbarrier", (edit,), (site.line,), near, fix)
        if parity is None or done is None:
            continue
        right = site.immediate("parity")
        fix = (("parity|phase",),)
        if right is not None:
            edit = replaced(parity, str(right ^ 1))
            yield Mutant("mbarrier-wait", "the parity is the other one", (edit,), (site.line,), near, fix)
        elif "\n" not in site.statement.text:
            start = site.statement.start
            flipped = f"{{ .reg .b32 mutant_t; xor.b32 mutant_t, {parity.text}, 1; "
            edits = (Edit(start, start, flipped), replaced(parity, "mutant_t"), behind(site.statement, "}"))
            yield Mutant("mbarrier-wait", "the parity is the other one", edits, (site.line,), near, fix)


# Asynchronous work


def _family(subject: Subject, pattern: str) -> frozenset[int]:
    return frozenset(site.line for site in subject.sites if re.match(pattern, site.form.opcode))


_COPIES = r"cp\.async\.(commit_group|wait_)"
_WGMMA = r"wgmma\."


class _Dropping(NamedTuple):
    """Instructions that are dropped, one at a time.

    Attributes:
        operator: its name.
        pattern: of their opcodes.
        fix: what words of a finding name the repair.
        near: the opcodes of those that may be blamed, too; "": none.
        weaker: whether those that wait for groups are also made one group weaker.
    """

    operator: str
    pattern: str
    fix: str
    near: str = ""
    weaker: bool = False


_DROPPINGS = (
    _Dropping(
        "copy-commit",
        r"cp\.async\.commit_group",
        r"commit_group|wait_group|wait_all|__pipeline_(commit|wait)|cp\.async\.wait",
        _COPIES,
    ),
    _Dropping(
        "copy-wait", r"cp\.async\.wait_", r"wait_group|wait_all|cp\.async\.wait|wait for the cop", _COPIES, weaker=True
    ),
    _Dropping(
        "bulk-commit",
        r"cp\.async\.bulk\.(commit|wait)_group",
        r"bulk\.(commit|wait)|commit_group|wait_group",
        r"cp\.(reduce\.)?async\.bulk",
    ),
    _Dropping("proxy-fence", r"fence\.proxy\.async", r"fence\.proxy\.async"),
    _Dropping(
        "fence", r"membar|fence\.(sc|acq_rel|acquire|release|mbarrier_init)", "membar|fence|__threadfence|release"
    ),
    _Dropping("wgmma-fence", r"wgmma\.fence", r"wgmma\.fence|warpgroup_arrive"),
    _Dropping("wgmma-commit", r"wgmma\.commit_group", r"wgmma\.commit_group|commit_group", _WGMMA),
    _Dropping("wgmma-wait", r"wgmma\.wait_group", r"wgmma\.wait_group|wait_group", _WGMMA, weaker=True),
    _Dropping("tcgen05-commit", r"tcgen05\.commit", r"tcgen05\.commit|arriv", r"tcgen05\.(mma|cp|commit)|mbarrier\."),
    _Dropping("tcgen05-wait", r"tcgen05\.wait::ld", r"tcgen05\.wait::ld"),
    _Dropping("tcgen05-wait", r"tcgen05\.wait::st", r"tcgen05\.wait::st"),
    _Dropping("tcgen05-fence", r"tcgen05\.fence::before", "fence::before_thread_sync"),
    _Dropping("tcgen05-fence", r"tcgen05\.fence::after", "fence::after_thread_sync"),
    _Dropping(
        "cluster-barrier",
        r"barrier\.cluster",
        r"barrier\.cluster|cluster_(arrive|wait|sync)|cluster",
        r"barrier\.cluster",
    ),
)


def _droppings(subject: Subject, row: _Dropping) -> Iterator[Mutant]:
    near = _family(subject, row.near) if row.near else frozenset()
    for site in subject.sites:
        if re.match(row.pattern, site.form.opcode):
            yield _dropped(row.operator, site, near, ((row.fix,),))


def _weaker(subject: Subject, row: _Dropping) -> Iterator[Mutant]:
    """Each wait for groups that leaves one more of them out."""
    near = _family(subject, row.near)
    for site in subject.sites:
        span = site.operand("groups") if "groups" in site.instruction.by_role else None
        if span is not None and re.match(row.pattern, site.form.opcode):
            right = site.immediate("groups")
            if right is not None:
                what = f"the wait leaves {right + 1} groups, not {right}"
                edits = (replaced(span, str(right + 1)),)
                yield Mutant(row.operator, what, edits, (site.line,), near, ((row.fix,),))


def _mutants_of(rows: Sequence[_Dropping], subject: Subject) -> Iterator[Mutant]:
    for row in rows:
        yield from _droppings(subject, row)
        if row.weaker:
            yield from _weaker(subject, row)


for _name in dict.fromkeys(row.operator for row in _DROPPINGS):
    operator(_name, ORDER)(partial(_mutants_of, [row for row in _DROPPINGS if row.operator == _name]))
