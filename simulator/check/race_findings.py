"""Races and stray accesses as findings: both sides with their lines and threads, the bytes by their names, and what
would order the two. Races with one cause are one finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isa.ptx.instruction import register_names
from simulator.check.launch_finding import LaunchFinding, Side
from simulator.check.memory_model.memories import Memories
from simulator.check.memory_model.races import Party, Race
from simulator.check.memory_model.rules import ORDER, ORDERS_OF
from simulator.check.memory_model.strays import Stray
from simulator.check.memory_model.taint import Origin
from simulator.check.rules import launch_rule
from simulator.execute.geometry import Geometry
from simulator.program.kernel import Item, Kernel, Operation
from simulator.simulation.launch import byte_names
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.blame import source_of
from simulator.state.columns import stride_of
from simulator.state.device_memory import DeviceMemory

_PAIRS = 4  # further pairs of lines that a finding names


@dataclass(frozen=True)
class Names:
    """How a launch calls its threads and bytes.

    Attributes:
        geometry: CTAs and threads of the launch.
        stride: bytes from one CTA's shared memory to the next.
    """

    kernel: Kernel
    memory: DeviceMemory
    geometry: Geometry
    stride: int

    def item(self, party: Party) -> Item:
        """The instruction of a side."""
        return self.kernel.items[party.place]

    def thread(self, party: Party) -> str:
        """A thread in words."""
        if party.cta < 0:
            return "an asynchronous operation"
        cta = self.geometry.place(party.cta)
        lane = f", lane {party.lane}" if party.lane >= 0 else ""
        return f"CTA {cta}, warp {party.warp}{lane}"

    def bytes_at(self, space: str, address: int, size: int) -> str:
        """Bytes by the variable or the buffer that they belong to."""
        if space == "shared":
            return self.shared(address % self.stride, size)
        if space == "local":
            return byte_names.in_local(self.kernel, address, size)
        return byte_names.in_global(self.memory, address, size)

    def shared(self, offset: int, size: int) -> str:
        """Bytes of shared memory."""
        return byte_names.in_shared(self.kernel, offset, size)

    def variable(self, race: Race) -> str:
        """The variable or the buffer of a race."""
        return self.bytes_at(race.space, race.address, race.size).split(" of ", 1)[-1]


def findings_of(memories: Memories, names: Names, gone: Sequence[tuple[int, Party]]) -> list[LaunchFinding]:
    """The findings of a launch's accesses.

    Args:
        gone: CTAs that may have exited before a thread of another one accesses their shared memory, and that thread.
    """
    races = list(memories.races.found.values())
    serious = [race for race in races if not race.benign]
    found = [_race(group, names) for group in _with_one_cause(serious, names)]
    found += [_race(group, names) for group in _with_one_cause([r for r in races if r.benign], names)]
    reaching = {origin.place for origin in memories.origins.found if origin.reached}
    origins = [each for each in memories.origins.found if each.reached or each.place not in reaching]
    found += [_unwritten(origin, names, memories) for origin in origins]
    by_place = {party.place: (cta, party) for cta, party in gone}
    found += [_gone(cta, party, names) for cta, party in by_place.values()]
    return found + [_stray(stray, names) for stray in memories.strays.found.values()]


def _gone(cta: int, party: Party, names: Names) -> LaunchFinding:
    item, known = names.item(party), launch_rule("peer-exited")
    what = (
        f"accesses shared memory of CTA {names.geometry.place(cta)}, which may have exited: no thread of that CTA "
        "waits for the access"
    )
    fix = "barrier.cluster (arrive and wait) behind the last access, in all CTAs of the cluster"
    return LaunchFinding(
        "peer-exited", item.line, source_of(item), item.text, names.thread(party), what, fix, states=known.rule,
        section=known.section,
    )  # fmt: skip


_REACHED = {
    "output": "it reaches global memory in line {}",
    "address": "line {} uses it as an address or a predicate",
    "decision": "it decides the branch of line {}",
    "count": "the mbarrier of line {} counts with it",
}


def _unwritten(origin: Origin, names: Names, memories: Memories) -> LaunchFinding:
    """A read of what nothing has written; a note if its value reaches nothing that anybody sees."""
    item, rule = names.kernel.items[origin.place], "read-before-write" if origin.reached else "unused-unwritten"
    known = launch_rule(rule)
    if isinstance(origin.what, str):
        what = f"nothing has written {names.kernel.names.get(origin.what, (origin.what,))[0]}"
        if isinstance(item, Operation) and (role := _role_of(item, origin.what)):
            what += f", operand {role}"
    else:
        what = f"reads {names.bytes_at(*origin.what)}, which nothing has written"
    lines = {names.kernel.items[place].line: how for place, how in origin.reached.items()}
    if lines:
        line, how = next(iter(lines.items()))
        what += f"; {_REACHED[how].format(line)}"
    return LaunchFinding(
        rule, item.line, source_of(item), item.text,
        names.thread(memories.party(origin.row, origin.lane, origin.place)), what, known.fix, origin.count,
        known.counts, states=known.rule, section=known.section,
        also=tuple(line for line in lines if line != item.line)[:_PAIRS],
    )  # fmt: skip


def _role_of(item: Operation, name: str) -> str:
    """The operand that names a register."""
    roles = zip(item.instruction.form.roles, item.instruction.operands, strict=False)
    return next((role.name for role, operand in roles if name in register_names(operand)), "")


def _stray(stray: Stray, names: Names) -> LaunchFinding:
    item, known = names.item(stray.party), launch_rule(stray.rule)
    return LaunchFinding(
        stray.rule, item.line, source_of(item), item.text, names.thread(stray.party), stray.what, stray.fix,
        stray.count, known.counts, states=known.rule, section=known.section,
    )  # fmt: skip


def _with_one_cause(races: Sequence[Race], names: Names) -> list[list[Race]]:
    """Races in groups: those of one variable that have an instruction in common, as one missing barrier causes them."""
    groups: list[tuple[object, set[int], list[Race]]] = []
    for race in races:
        key = race.space, names.variable(race), race.one_instruction, race.narrow
        places, together = {race.first.place, race.second.place}, [race]
        for group in [each for each in groups if each[0] == key and each[1] & places]:
            groups.remove(group)
            places |= group[1]
            together += group[2]
        groups.append((key, places, together))
    return [sorted(group, key=lambda race: _order(race, names)) for _, _, group in groups]


def _order(race: Race, names: Names) -> tuple[object, ...]:
    """Threads that are far apart first, then reads behind writes, then the most frequent."""
    lines = names.item(race.second).line, names.item(race.first).line
    return race.apart, race.first.access == "reads", -race.count, *lines


def _race(group: Sequence[Race], names: Names) -> LaunchFinding:
    race = group[0]
    rule = "benign-race" if race.benign else f"{race.space}-memory-race"
    known, name = launch_rule(rule), _order_of(race, names)
    stated = ORDER[name]
    item, other = names.item(race.second), names.item(race.first)
    where = names.bytes_at(race.space, race.address, race.size)
    lines = {item.line, other.line}
    more = [each for each in group[1:] if not {names.item(each.first).line, names.item(each.second).line} <= lines]
    also = dict.fromkeys(line for each in more for line in (names.item(each.first).line, names.item(each.second).line))
    return LaunchFinding(
        rule, item.line, source_of(item), item.text, names.thread(race.second), _what(race, names, where),
        _fix(race, item, other), sum(each.count for each in group), known.counts,
        Side(other.line, source_of(other), other.text, names.thread(race.first), race.first.access, where),
        f"{name}: {stated.rule}", stated.section, tuple(line for line in also if line not in lines),
    )  # fmt: skip


def _order_of(race: Race, names: Names) -> str:
    """The rule of order that the two threads need, by its name in `ORDER`."""
    if race.one_instruction:
        return "one-instruction"
    if race.narrow:
        return "scope"
    for party in (race.first, race.second):
        name = next((ORDERS_OF[each] for each in ORDERS_OF if names.item(party).opcode.startswith(each)), "")
        if name and party.cta < 0:
            return name
    apart = race.apart
    if apart.same_warp:
        return "warp-sync"
    return "cta-barrier" if apart.same_cta else "cluster-barrier" if apart.same_cluster else "release-acquire"


def _what(race: Race, names: Names, where: str) -> str:
    other = names.item(race.first)
    theirs = {"reads": "has read", "writes": "has written", "updates": "has updated"}[race.first.access]
    who = names.thread(race.first)
    source = f" ({source_of(other)})" if source_of(other) else ""
    if race.one_instruction:
        return f"{who} writes {where} in the same instruction, with another value"
    text = f"{race.second.access} {where}, which line {other.line}{source} of {who} {theirs}; nothing orders the two"
    if race.narrow:
        text += ": the scope of one does not reach the other"
    if race.benign:
        text += "; the value is the same"
    return text


def _fix(race: Race, item: Item, other: Item) -> str:
    between = f"around line {item.line}"
    if item.line != other.line:
        between = f"between line {other.line} and line {item.line}"
    if race.one_instruction:
        return "an address of its own for each thread, or an atomic operation"
    if race.narrow:
        return "a scope that reaches both threads: .gpu between CTAs, .cluster within a cluster"
    if race.first.cta < 0 or race.second.cta < 0:
        return f"a wait for the asynchronous operation {between}, by the thread that goes on or before a barrier of it"
    apart = race.apart
    if apart.same_warp:
        return f"__syncwarp() (bar.warp.sync) {between}"
    if apart.same_cta:
        return f"__syncthreads() (bar.sync) {between}, or another barrier of both warps"
    if apart.same_cluster:
        return f"barrier.cluster {between}"
    return "an atomic operation, release and acquire at .gpu scope, or a kernel of its own"


def names_of(setup: Setup) -> Names:
    """How a launch calls its threads and bytes."""
    size = setup.shared_bytes
    return Names(setup.kernel, setup.memory, setup.geometry, max(stride_of(size), 1))
