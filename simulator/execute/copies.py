"""Executes accesses to global memory, and the asynchronous copies from there to shared memory.

A copy is executed whole when it is issued, unless `simulator.execute.completion` says when. Until its group is waited
for (cp.async.wait_group, wait_all) its bytes in shared memory count as under way: a warp that reads or writes them
races, which is counted like the other races.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.ptx.instruction import Immediate, Instruction, Predicate
from simulator.execute.asynchronous import COPY, Effect
from simulator.execute.completion import Completion
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import (
    CommitGroupFacts,
    Fact,
    FetchFacts,
    FetchKind,
    WaitGroupFacts,
)
from simulator.execute.memory import filled, loader, raced, region, storer_of_pieces, write_some
from simulator.execute.operands import addresses, reader
from simulator.execute.registry import prepares
from simulator.state.global_memory import LINE_BYTES, SECTOR_BYTES, places, touched
from simulator.state.registers import Warps
from simulator.state.shared import AddressError, Addresses, wavefronts

BULK_UNIT = 16  # bytes that address and size are multiples of; PTX ISA 9.0, 9.7.9.25.4.1


def kept_in_l1(form: Form) -> bool:
    """Whether a load looks into L1: not with .cg, .cv or .volatile, and not in the order of other CTAs (.relaxed and
    .acquire beyond .cta), which L2 alone can give. PTX ISA 9.0, 9.7.9.1 and 9.7.9.8."""
    ordered = {"relaxed", "acquire", "mmio"}.intersection(form.qualifiers) and "cta" not in form.qualifiers
    return not ordered and {"cg", "cv", "volatile"}.isdisjoint(form.qualifiers)


def through_l1(form: Form) -> bool:
    """Whether an instruction reads global memory through L1: a load that looks into it, or cp.async.ca."""
    first, *rest = form.opcode.split(".")
    return "ca" in rest if first == "cp" else first in ("ld", "ldu") and kept_in_l1(form)


@prepares("ld.global")
def load_global(instruction: Instruction, form: Form) -> Executor:
    """ld.global: PTX ISA 9.0, 9.7.9.8."""
    read_addresses, write = addresses(instruction["address"]), loader(instruction["d"], form)
    size, kept = form.width // 8 * form.elements, kept_in_l1(form)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = machine.memory.placed(filled(machine, read_addresses(machine, warps)), warps)
        if machine.order is not None:
            machine.order.reads("global", where, size, warps, machine.threads(warps))
        write(machine, warps, machine.memory.read(where, size))
        machine.note(instruction, warps)
        return Outcome(facts=fetched(machine, FetchKind.LOAD, where, size, kept=kept))

    return run


@prepares("st.global")
def store_global(instruction: Instruction, form: Form) -> Executor:
    """st.global: PTX ISA 9.0, 9.7.9.11."""
    read_addresses, (read, pieces) = (
        addresses(instruction["address"]),
        storer_of_pieces(instruction["a"], form),
    )
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, data = machine.memory.placed(read_addresses(machine, warps), warps), read(machine, warps)
        lanes = machine.active
        chosen, given = (where, data) if lanes is None else (where[lanes], data[lanes])
        for offset, piece in pieces:
            if machine.order is not None:
                machine.order.writes("global", where + offset, data[..., piece], warps, machine.threads(warps))
            machine.memory.write(chosen + offset, given[..., piece])
        machine.note(instruction, warps)
        return Outcome(facts=fetched(machine, FetchKind.STORE, where, size))

    return run


def fetched(
    machine: CtaState,
    kind: FetchKind,
    where: Addresses,
    size: int,
    written: NDArray[np.int64] | None = None,
    *,
    kept: bool = True,
    lanes: NDArray[np.bool_] | None = None,
) -> tuple[Fact, ...]:
    """For each warp, the fact of its access to global memory: how many lines and sectors it touches, of a copy how many
    wavefronts of shared memory it takes (`written`), and of a load whether L1 may have it (`kept`). `lanes`, bool
    [warp, lane], are those that access it; None for the active ones. No facts where nobody asks for the time."""
    if not machine.timed or machine.order is not None:  # a check asks for the wavefronts of shared memory alone
        return ()
    lanes = machine.active if lanes is None else lanes
    lines, sectors = (touched(where, size, unit, lanes).tolist() for unit in (LINE_BYTES, SECTOR_BYTES))
    taken = [0] * len(where) if written is None else written.tolist()
    named = places(where, SECTOR_BYTES, lanes) if machine.names_sectors else [()] * len(where)
    return tuple(FetchFacts(kind, *counts, kept) for counts in zip(lines, sectors, taken, named, strict=True))


def copy_kind(form: Form) -> FetchKind:
    """Which kind of access a cp.async is."""
    return FetchKind.CACHED_COPY if "ca" in form.qualifiers else FetchKind.COPY


@prepares("cp.async.ca", "cp.async.cg")
def copy(instruction: Instruction, form: Form) -> Executor:
    """cp.async: PTX ISA 9.0, 9.7.9.25.3.1."""
    to, source, size = addresses(instruction["to"]), addresses(instruction["from"]), instruction["size"]
    assert isinstance(size, Immediate)
    width, kind = size.value, copy_kind(form)
    partial = instruction.by_role.get("filled")
    count = reader(partial) if partial is not None else None
    ignores = isinstance(partial, Predicate)  # true: all bytes are zeros

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, origin = to(machine, warps), machine.memory.placed(source(machine, warps), warps)
        lanes = machine.threads(warps)
        given = None if count is None else count(machine, warps)[:, 0]
        given = np.where(given, 0, width) if given is not None and ignores else given
        counts = None if given is None else _counts(given, lanes, width)
        reading = lanes if counts is None else lanes & (counts > 0)
        if machine.completion is not None and not machine.checked:
            _hand_over(machine, machine.completion, form, warps, lanes, where, _Source(origin, width, reading, counts))
            return NOTHING
        data = _Source(origin, width, reading, counts).read(machine)
        if machine.checked:
            _write_by_warp(machine, warps, where, data, lanes)
        elif machine.active is None:
            machine.shared.write(where, data, machine.actors(warps))
        else:
            write_some(machine, where, data, warps)
        machine.note(instruction, warps, writes=region(machine, filled(machine, where), width))
        if not machine.timed:
            return NOTHING
        taken, asking = wavefronts(filled(machine, where), width), None if counts is None else reading
        return Outcome(facts=fetched(machine, kind, origin, width, taken, lanes=asking))

    return run


class _Source(NamedTuple):
    """What each thread of a cp.async copies.

    Attributes:
        origin: int64 [...]: addresses in global memory.
        width: bytes of each copy.
        reading: bool [...]: threads that read there at all.
        counts: [...]: bytes that are no zeros; None: all.
    """

    origin: Addresses
    width: int
    reading: NDArray[np.bool_]
    counts: NDArray[np.int64] | None

    def read(self, machine: CtaState) -> NDArray[np.uint8]:
        """The bytes uint8 [..., byte]."""
        if self.reading.all():
            data = machine.memory.read(self.origin, self.width)
        else:
            data = np.zeros((*self.origin.shape, self.width), np.uint8)
            data[self.reading] = machine.memory.read(self.origin[self.reading], self.width)
        if self.counts is not None and (self.counts[self.reading] < self.width).any():
            data = data * (np.arange(self.width) < self.counts[..., None])
        return data

    def of(self, chosen: tuple[NDArray[Any], ...]) -> _Source:
        """Those of some threads."""
        counts = None if self.counts is None else self.counts[chosen]
        return _Source(self.origin[chosen], self.width, self.reading[chosen], counts)


def _hand_over(
    machine: CtaState,
    completion: Completion,
    form: Form,
    warps: Warps,
    lanes: NDArray[np.bool_],
    where: Addresses,
    source: _Source,
) -> None:
    """Lets copies happen when `completion` says so: one element for each thread."""
    if machine.order is not None:
        machine.order.reads("global", source.origin, source.width, warps, source.reading)
        lanes = machine.order.lands(where, source.width, warps, lanes)
    row, lane = np.nonzero(lanes)
    to, own, given = where[row, lane], warps[row], source.of((row, lane))

    def store(chosen: NDArray[np.bool_], data: NDArray[np.uint8]) -> None:
        machine.shared.write(to[chosen][:, None], data[:, None], machine.actors(own[chosen]))

    effect = Effect(
        lambda chosen: given.of((chosen,)).read(machine),
        store,
        writes=machine.places(own, to)[:, None] + np.arange(source.width),
    )
    completion.begin(COPY, form.opcode, effect, own[:, None], lane)


def _write_by_warp(
    machine: CtaState, warps: Warps, where: Addresses, data: NDArray[np.uint8], lanes: NDArray[np.bool_]
) -> None:
    """Writes the bytes of copies warp by warp, and notes them as under way."""
    for row, (warp, active) in enumerate(zip(warps.tolist(), lanes, strict=True)):
        some = slice(row, row + 1)
        with nullcontext() if machine.completion is None else machine.completion.acting("copy"):
            races = machine.shared.write(where[some, active], data[some, active], machine.actors(warps[some]))
        bytes_of = where[some][:, active][..., None] + np.arange(data.shape[-1])
        mine = machine.places(warps[some], bytes_of).ravel()
        raced(machine, races + int((machine.copies.under_way[mine] > 0).sum()))
        machine.copies.begin(warp, mine)


def _counts(given: NDArray[Any], lanes: NDArray[np.bool_], width: int) -> NDArray[np.int64]:
    """How many bytes each lane copies, int64 [warp, lane]; the rest is filled with zeros."""
    counts = given.astype(np.int64)
    if (counts > width)[lanes].any():
        raise AddressError(
            f"cp.async of {width} bytes with a source size of {int(counts[lanes].max())}", f"0 to {width}"
        )
    return counts


@prepares("cp.async.commit_group")
def commit_group(instruction: Instruction, form: Form) -> Executor:
    """cp.async.commit_group: closes the open group of each warp. PTX ISA 9.0, 9.7.9.25.3.2."""

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if machine.completion is not None:
            machine.completion.commit(COPY, warps, machine.threads(warps))
        if machine.checked:
            machine.check_whole(instruction)
            for warp in warps.tolist():
                machine.copies.commit(warp)
        machine.note(instruction, warps)
        return Outcome(facts=(CommitGroupFacts(),) * len(warps)) if machine.timed else NOTHING

    return run


@prepares("cp.async.wait_group", "cp.async.wait_all")
def wait_groups(instruction: Instruction, form: Form) -> Executor:
    """cp.async.wait_group, and wait_all, which commits first and waits for every group. PTX ISA 9.0, 9.7.9.25.3.3."""
    count = instruction.by_role.get("groups", Immediate(0))
    every = "wait_all" in form.qualifiers
    assert isinstance(count, Immediate)
    groups = count.value % (1 << 32)  # what ptxas 13.0 keeps of it

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if machine.completion is not None:
            machine.completion.wait(COPY, warps, machine.threads(warps), groups, every=every)
        if machine.checked:
            machine.check_whole(instruction)
            for warp in warps.tolist():
                if every:
                    machine.copies.commit(warp)
                machine.copies.wait(warp, groups)
        machine.note(instruction, warps)
        return Outcome(facts=(WaitGroupFacts(groups, every),) * len(warps)) if machine.timed else NOTHING

    return run
