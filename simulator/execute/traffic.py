"""Accesses to memory by their addresses alone: which operands give them, where they go, how wide they are, and what
the timing engine must know of them. For runs that ask for time and not for values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.ptx.instruction import Immediate, Instruction
from simulator.execute.copies import BULK_UNIT, copy_kind, fetched
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor, guarded
from simulator.execute.dynamic_info import FetchKind
from simulator.execute.memory import filled
from simulator.execute.operands import addresses
from simulator.execute.registry import longest
from simulator.state.registers import Warps
from simulator.state.shared import LINE_BYTES, Addresses, wavefronts


@dataclass(frozen=True)
class Site:
    """One of the places that an instruction accesses.

    Attributes:
        role: the operand that gives the address.
        shared: whether it lies in shared memory, not in global memory.
        width: bytes that each lane accesses, which its address is a multiple of.
        lanes: how many lanes, from the first on, give an address.
        writes: whether it is written.
    """

    role: str
    shared: bool
    width: int
    lanes: int = 32
    writes: bool = False


@dataclass(frozen=True)
class Traffic:
    """The accesses of an instruction.

    Attributes:
        sites: where it accesses memory, in the order in which addresses are checked.
        data: operands whose values it writes to memory, or which say how much of them.
        kind: the kind of its `FetchFacts`; None for an access to shared memory alone.
        size: the operand that says how many bytes are accessed; empty where `Site.width` says it. Such an instruction
            does more than access memory.
    """

    sites: tuple[Site, ...]
    data: tuple[str, ...] = ()
    kind: FetchKind | None = None
    size: str = ""


def _matrices(instruction: Instruction, form: Form) -> Traffic:
    assert form.fragment is not None
    return Traffic((Site("address", True, 16, form.fragment.shape[0]),))


def _access(shared: bool, writes: bool, kind: FetchKind | None = None) -> Callable[[Instruction, Form], Traffic]:
    def describe(instruction: Instruction, form: Form) -> Traffic:
        site = Site("address", shared, form.width // 8 * form.elements, writes=writes)
        return Traffic((site,), ("a",) if writes else (), kind)

    return describe


def _copy(instruction: Instruction, form: Form) -> Traffic:
    size = instruction["size"]
    assert isinstance(size, Immediate)
    sites = Site("from", False, size.value), Site("to", True, size.value, writes=True)
    return Traffic(sites, ("filled",), copy_kind(form))


def _bulk_copy(instruction: Instruction, form: Form) -> Traffic:
    return Traffic((Site("from", False, BULK_UNIT), Site("to", True, BULK_UNIT, writes=True)), size="size")


_TRAFFIC: dict[str, Callable[[Instruction, Form], Traffic]] = {
    "ldmatrix": _matrices,
    **dict.fromkeys(("ld.shared", "ld.shared::cta"), _access(True, False)),
    **dict.fromkeys(("st.shared", "st.shared::cta"), _access(True, True)),
    "ld.global": _access(False, False, FetchKind.LOAD),
    "st.global": _access(False, True, FetchKind.STORE),
    **dict.fromkeys(("cp.async.ca", "cp.async.cg"), _copy),
    **dict.fromkeys(("cp.async.bulk.shared::cluster.global", "cp.async.bulk.shared::cta.global"), _bulk_copy),
}


def traffic_of(instruction: Instruction) -> Traffic | None:
    """The accesses of an instruction whose addresses say all about its time; None for any other instruction."""
    describe = longest(instruction.form, _TRAFFIC)
    return None if describe is None else describe(instruction, instruction.form)


def by_addresses(instruction: Instruction, traffic: Traffic) -> Executor:
    """The function that checks and counts the accesses of an instruction and moves no data; an address that is wrong
    is left to the instruction's own executor, which raises the error; so is a copy whose bytes may be zeros.

    It remembers the last access of each group of warps, for as long as it lives.
    """
    if "filled" in instruction.by_role:  # says which lanes access memory at all
        return executor(instruction)
    run = _by_addresses(instruction, traffic)
    return run if instruction.guard is None else guarded(instruction, run)


def _by_addresses(instruction: Instruction, traffic: Traffic) -> Executor:
    read = [addresses(instruction[site.role]) for site in traffic.sites]
    last: dict[tuple[int, bytes], tuple[list[Addresses], Outcome, NDArray[np.int64] | None]] = {}
    written = next((place for place, site in enumerate(traffic.sites) if site.shared), None)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        places = [
            filled(machine, place(machine, warps))[:, : site.lanes]
            for place, site in zip(read, traffic.sites, strict=True)
        ]
        key = machine.rank, warps.tobytes() if machine.active is None else warps.tobytes() + machine.active.tobytes()
        known = last.get(key)
        moves = [None if known is None else _move(place, known[0][i]) for i, place in enumerate(places)]
        if known is not None and all(move == 0 for move in moves):
            return known[1]
        for site, place in zip(traffic.sites, places, strict=True):
            size = (machine.shared if site.shared else machine.memory).data.size
            if place.min() < 0 or place.max() + site.width > size or (place % site.width).any():
                return executor(instruction)(machine, warps)  # with its guard, which lets the same threads take part
        width, taken = traffic.sites[0].width, None
        if known is not None and all(move is not None for move in moves):
            last[key] = places, known[1], known[2]
            return known[1]
        if known is not None and written is not None and moves[written] is not None:
            taken = known[2]
        elif written is not None:
            taken = wavefronts(places[written], width)
        outcome = Outcome(taken)
        if traffic.kind:
            outcome = Outcome(facts=fetched(machine, traffic.kind, places[0], width, taken))
        last[key] = places, outcome, taken
        return outcome

    return run


def _move(places: Addresses, before: Addresses) -> int | None:
    """By how many bytes all addresses have moved on, if that is a whole number of lines, so that an access takes the
    same time; else None."""
    moved = places - before
    first = int(moved[0, 0])
    return first if first % LINE_BYTES == 0 and bool((moved == first).all()) else None
