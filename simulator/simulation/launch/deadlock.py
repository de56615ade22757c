"""Says of threads that wait for ever who waits where for whom: all of them, those of CTAs that do the same once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Time
from isa.forms.synchronisation import is_mbarrier_wait
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import addresses, reader
from simulator.execute.pending import PendingWait
from simulator.execute.spaces import parts, space_of
from simulator.program.kernel import Item, Operation
from simulator.simulation.launch import byte_names
from simulator.simulation.launch.barriers import BARRIERS, EVERY, ClusterBarriers, LaunchBarriers
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.threads import AWAY, Threads
from simulator.state.device_memory import DeviceMemory
from simulator.state.mbarrier import parity_of
from simulator.state.registers import LANE, WARP_SIZE, Lanes, Warps
from simulator.tables import runs_in_words

ENDLESS = "endless-wait"  # the rule of threads that look for what nobody writes
_TOLD = 8  # groups of threads that a message names
_WITHIN = (1 << 24) - 1  # bits of an address within the shared memory of a CTA
_BARRIER_LEGAL = "as many threads at a barrier as it waits for"


class Stuck(Protocol):
    """A run of a kernel that does not go on (`simulator.simulation.launch.run.Run`)."""

    code: Any
    state: LaunchState
    threads: Threads
    barriers: LaunchBarriers
    cluster: ClusterBarriers
    gathered: dict[int, Lanes]
    blocked: list[tuple[PendingWait, Warps]]
    uses: Any
    spinning: Any


@dataclass(frozen=True)
class Waiting:
    """Threads that wait for the same.

    Attributes:
        place: of their instruction.
        text: who waits where for whom, in words that are the same in every CTA that does the same.
        legal: what would be right.
        rule: its name.
        also: the places of further instructions that have to do with it.
    """

    place: int
    text: str
    legal: str
    rule: str = "deadlock"
    also: tuple[int, ...] = ()


def deadlock(run: Stuck) -> LaunchError:
    """The error of threads that wait for ever."""
    found: dict[Waiting, list[int]] = {}  # by what they wait for, the first row of each CTA
    for cta in range(len(run.state.batch.ctas)):
        own = slice(cta * run.state.warps, (cta + 1) * run.state.warps)
        if run.threads.live[own].any():
            for each in dict.fromkeys(_of_cta(run, own)):
                found.setdefault(each, []).append(own.start)
    return _error(run, found)


def _error(run: Stuck, found: dict[Waiting, list[int]]) -> LaunchError:
    ctas = max(len(rows) for rows in found.values())
    texts = [_text(run, each, rows, ctas) for each, rows in list(found.items())[:_TOLD]]
    more = len(found) - _TOLD
    texts += [f"and {more} more"] * (more > 0)
    first, rows = next(iter(found.items()))
    everywhere = f" (the same in {ctas} CTAs)" if ctas > 1 else ""
    ended = _ended(run, rows[0])
    items = run.code.kernel.items
    places = dict.fromkeys(place for each in found for place in (each.place, *each.also))
    also = tuple(dict.fromkeys(items[place].line for place in places if items[place].line != items[first.place].line))
    item = items[first.place]
    reason = f"deadlock: {'; '.join(texts)}{ended}{everywhere}"
    x, y, z = run.state.batch.cta_of(rows[0])
    warp = _first_warp(first.text)
    thread = f"CTA ({x}, {y}, {z})" + (f", warp {warp}" if warp is not None else "")
    return LaunchError(
        reason, first.legal, line=item.line, source=source_of(item), thread=thread, rule=first.rule, also=also
    )


def _first_warp(text: str) -> int | None:
    """The first warp that a text names."""
    words = text.replace(",", " ").split()
    numbers = (words[index + 1] for index, word in enumerate(words[:-1]) if word in ("warp", "warps"))
    return next((int(number) for number in numbers if number.isdigit()), None)


def _text(run: Stuck, each: Waiting, rows: list[int], ctas: int) -> str:
    if len(rows) == ctas:
        return each.text
    x, y, z = run.state.batch.cta_of(rows[0])
    return f"{each.text} (in CTA ({x}, {y}, {z}){f' and {len(rows) - 1} more' if len(rows) > 1 else ''})"


def _ended(run: Stuck, row: int) -> str:
    """The warps of a CTA that have exited, in words."""
    done = np.flatnonzero(~run.threads.live[row : row + run.state.warps].any(axis=1)).tolist()
    return f"; warp{'s' if len(done) > 1 else ''} {runs_in_words(done)} ha{'ve' if len(done) > 1 else 's'} exited" * (
        len(done) > 0
    )


def _of_cta(run: Stuck, own: slice) -> Iterator[Waiting]:
    """The groups of threads of a CTA that wait: first those that others wait for."""
    yield from _gathered(run, own)
    yield from _blocked(run, own)
    parked = [row for row in range(own.start, own.stop) if run.threads.parked[row].any()]
    behind = [row for row in parked if (run.threads.at[row] < AWAY).any()]  # others of the warp look for something
    for row in parked:
        if row not in behind:
            yield from _parked(run, row)
    yield from _looking(run, own)
    for row in behind:
        yield from _parked(run, row)
    yield from _at_clusters(run, own)
    yield from _at_barriers(run, own)


def _gathered(run: Stuck, own: slice) -> Iterator[Waiting]:
    """Warpgroups of which only some threads come to an instruction."""
    for place, waiting in run.gathered.items():
        item = run.code.kernel.items[place]
        if not waiting[own].any() or not isinstance(item, Operation):
            continue
        size, warps = item.instruction.form.warps, run.state.warps
        for first in range(0, warps, size):
            here = waiting[own][first : first + size]
            if not here.any():
                continue
            lacking = [first + each for each in range(size) if each >= len(here) or not here[each].all()]
            few = f"; the CTA has {warps} warps" if first + size > warps else ""
            text = f"'{item.text}' waits for warp{'s' * (len(lacking) > 1)} {runs_in_words(lacking)} of its warpgroup"
            legal = f"all threads of {size} consecutive warps, the first a multiple of {size}, at the same instruction"
            yield Waiting(place, text + few, legal, "aligned-threads")


def _blocked(run: Stuck, own: slice) -> Iterator[Waiting]:
    """Warps that an instruction keeps waiting (tcgen05.alloc)."""
    legal = "tcgen05.dealloc by a warp that does not wait itself"
    for wait, rows in run.blocked:
        mine = rows[(rows >= own.start) & (rows < own.stop)]
        if len(mine):
            lane = int(run.threads.live[mine[0]].argmax())
            place = run.code.place_of[int(run.threads.back[mine[0], lane])] - 1
            who = _warps(mine - own.start)
            yield Waiting(place, f"waits for {wait.describe()}: {who} at line {_line(run, place)}", legal)


def _parked(run: Stuck, row: int) -> Iterator[Waiting]:
    """The threads of a warp that wait for others of it that never come."""
    threads, warp, items = run.threads, row % run.state.warps, run.code.kernel.items
    legal = "all threads that the mask names, or a warp whole, at the same instruction"
    left = threads.parked[row].copy()
    parked, back, named = left.copy(), threads.back[row], threads.named[row]
    gone = WARP_SIZE - int(threads.live[row].sum())
    while left.any():
        lane = int(left.argmax())
        alike = parked & (threads.kind[row] == threads.kind[row, lane]) & (named == named[lane])
        left &= ~alike
        missing = threads.live[row] & ~alike & (named[lane] >> LANE & 1 != 0)
        place = run.code.place_of[int(back[lane])]
        text = f"{lanes_in_words(alike)} of warp {warp} {_wait(alike)} at '{items[place].text}' for "
        text += lanes_in_words(missing)
        also = []
        for rank in np.unique(back[missing & (threads.at[row] == AWAY)]).tolist():
            here = missing & (back == rank) & (threads.at[row] == AWAY)
            for some, at in ((here & parked, run.code.place_of[rank]), (here & ~parked, run.code.place_of[rank] - 1)):
                if some.any():
                    text += f"; {lanes_in_words(some)} {_wait(some)} at line {items[at].line}, '{items[at].text}'"
                    masks = ", ".join(f"{mask:#x}" for mask in np.unique(named[some & parked]).tolist())
                    text += f", with mask {masks}" * bool(masks)
                    also.append(at)
        yield Waiting(
            place, text + f" ({gone} have exited)" * (gone > 0), legal, "aligned-threads", tuple(also)
        )  # fmt: skip


def _at_clusters(run: Stuck, own: slice) -> Iterator[Waiting]:
    """Threads at the barrier of their cluster."""
    waiting = run.cluster.waiting[own]
    for place, rows, _ in _by_place(run, own, waiting):
        text = run.cluster.describe(int(rows[0]) + own.start, run.threads.live)
        text += f", for which {_warps(rows)} {_waits(rows)} at line {_line(run, place)}"
        yield Waiting(place, text, "an arrival of every thread that has not exited")


def _at_barriers(run: Stuck, own: slice) -> Iterator[Waiting]:
    """Threads at barriers of the CTA."""
    barriers, live, cta = run.barriers, run.threads.live[own], own.start // run.state.warps
    for number in range(BARRIERS):
        here = barriers.waiting[own] == number + 1
        wanted, arrived = int(barriers.wanted[cta, number]), int(barriers.arrived[cta, number])
        if wanted == EVERY:
            missing = live & ~here
            whom = _threads_in_words(missing) if missing.any() else "nobody"
        else:
            whom = f"{max(wanted - arrived, 0)} more of its {wanted} threads"
        for place, rows, lanes in _by_place(run, own, here):
            who = _warps(rows) if lanes.all() else _threads_in_words(_spread(lanes, rows, live.shape))
            text = f"{who} {_waits(rows)} at barrier {number} (line {_line(run, place)}) for {whom}"
            yield Waiting(place, text, _BARRIER_LEGAL)


def _looking(run: Stuck, own: slice) -> Iterator[Waiting]:
    """Threads that look again and again, or go round without looking."""
    going = (run.threads.at[own] < AWAY) & run.threads.exists[own]
    looked, without = run.spinning.looked_at[own], list[Waiting]()
    for place in np.unique(looked[going]).tolist():
        here = going & (looked == place)
        rows = np.flatnonzero(here.any(axis=1))
        if place < 0:
            without += list(_without_looking(run, own, here))
            continue
        item = run.code.kernel.items[place]
        assert isinstance(item, Operation)
        look = _mbarriers if is_mbarrier_wait(item.instruction.form) else _polls
        yield from look(run, item, rows + own.start, here[rows])
    yield from without


def _without_looking(run: Stuck, own: slice, going: Lanes) -> Iterator[Waiting]:
    """Threads of a CTA, bool [warp, lane], that go round, or stand at a barrier for others of their warp."""
    at = run.threads.at[own]
    for rank in np.unique(at[going]).tolist():
        place = run.code.place_of[rank]
        item, here = run.code.kernel.items[place], going & (at == rank)
        rows = np.flatnonzero(here.any(axis=1))
        if isinstance(item, Operation) and item.instruction.form.time is Time.BARRIER:
            text = f"{_who_waits(rows, here[rows])} at line {item.line} for the other lanes of the warp"
            yield Waiting(place, text, _BARRIER_LEGAL)
        else:
            text = f"{_who_waits(rows, here[rows], 'goes', 'go')} round at line {item.line} without end"
            yield Waiting(place, text, "a loop that ends", ENDLESS)


def _mbarriers(run: Stuck, item: Operation, rows: Warps, lanes: Lanes) -> Iterator[Waiting]:
    """Threads that wait for phases of mbarriers."""
    instruction, state = item.instruction, run.state
    parity = "parity" in instruction.by_role
    where = addresses(instruction["address"])(state, rows)
    want = reader(instruction["parity" if parity else "state"], 32 if parity else 64)(state, rows)[:, 0]
    phases: NDArray[np.uint64] = (want if parity else parity_of(want)) & np.uint64(1)
    groups: dict[tuple[int, int, int], Lanes] = {}
    for index, lane in np.argwhere(lanes).tolist():
        holder, offset = state.holder(int(where[index, lane]), int(rows[index]))
        key = holder.number, offset, int(phases[index, lane])
        groups.setdefault(key, np.zeros_like(lanes))[index, lane] = True
    holders = {holder.number: holder for holder in state.holders}
    own = int(state.batch.ctas[rows[0] // state.warps])
    for (number, offset, wanted), some in groups.items():
        barrier = holders[number].mbarriers.live.get(offset)
        if barrier is None:
            continue
        who = _who_waits(rows % state.warps, some)
        whose = "" if number == own else holders[number].shared_name
        phase = barrier.awaited(wanted)
        text = f"{who} at line {item.line} for phase {phase} of {byte_names.mbarrier(run.code.kernel, offset)}{whose}"
        text += f", which lacks {barrier.lacks() or 'nothing'}"
        also: tuple[int, ...] = ()
        if run.uses is not None:
            told, also = run.uses.mbarriers.bytes_of((number, offset))
            text += f" ({told})" * bool(told)
            if (unseen := run.uses.mbarriers.unseen((number, offset), rows)) >= 0:
                text += f"; phase {unseen} is complete, and they have not waited for it: the other parity?"
            for idle in run.uses.mbarriers.idle_of(iter([(number, offset)])):
                text += f"; {idle.words(run.code.kernel)}"
        yield Waiting(item.index, text, "as many arrivals, and as many bytes, as a phase expects", also=also)


def _polls(run: Stuck, item: Operation, rows: Warps, lanes: Lanes) -> Iterator[Waiting]:
    """Threads that read memory again and again."""
    address = item.instruction.by_role.get("address")
    if address is None:
        text = f"{_who_waits(rows % run.state.warps, lanes)} at line {item.line}, in a loop without end"
        yield Waiting(item.index, text, "a loop that ends", ENDLESS)
        return
    form = item.instruction.form
    size = max(form.width // 8 * form.elements, 1)
    where = addresses(address)(run.state, rows)
    groups: dict[tuple[str, int], Lanes] = {}
    for index, lane in np.argwhere(lanes).tolist():
        at, space = int(where[index, lane]), space_of(form)
        if not space:
            part = parts(np.array([[at]]), np.ones((1, 1), np.bool_))[0]
            at, space = at - part.base, part.space
        groups.setdefault((space, at), np.zeros_like(lanes))[index, lane] = True
    for (space, at), some in groups.items():
        holds = _value(run, space, at, size, int(rows[0]))
        who = f"{_who_waits(rows % run.state.warps, some)} at line {item.line}"
        text = f"{who} for {_bytes(run, space, at, size)}{holds}, and nobody writes there"
        yield Waiting(item.index, text, "a write of what is waited for", ENDLESS)


def _bytes(run: Stuck, space: str, at: int, size: int) -> str:
    if space == "shared":
        return byte_names.in_shared(run.code.kernel, at & _WITHIN, size)
    if space == "global" and isinstance(run.state.memory, DeviceMemory):
        return byte_names.in_global(run.state.memory, at, size)
    return f"{size} bytes of .{space} memory"


def _value(run: Stuck, space: str, at: int, size: int, row: int) -> str:
    """The value that bytes hold, in words; "" where that is not known."""
    if size > 8:
        return ""
    if space == "shared":
        holder, offset = run.state.holder(at, row)
        data = holder.mbarriers.data[offset : offset + size]
    elif space == "global" and isinstance(run.state.memory, DeviceMemory):
        buffers = (each for each in run.state.memory.buffers if each.address <= at < each.end)
        found = next(buffers, None)
        if found is None:
            return ""
        data = found.data[at - found.address : at - found.address + size]
    else:
        return ""
    last = run.uses.last_write(space, at, row) if run.uses is not None and run.uses.last_write is not None else None
    wrote = f" (line {_line(run, last)} wrote them last)" if last is not None else ""
    return f", which hold {int.from_bytes(data.tobytes(), 'little')}{wrote}"


# Words


def _by_place(run: Stuck, own: slice, waiting: Lanes) -> Iterator[tuple[int, NDArray[np.intp], Lanes]]:
    """Threads of a CTA, bool [warp, lane], that wait at a barrier, by the place of their instruction: warps, lanes."""
    back = run.threads.back[own]
    for rank in np.unique(back[waiting]).tolist():
        here = waiting & (back == rank)
        rows = np.flatnonzero(here.any(axis=1))
        yield run.code.place_of[rank] - 1, rows, here[rows]


def _line(run: Stuck, place: int) -> int:
    item: Item = run.code.kernel.items[place]
    return item.line


def _warps(numbers: Iterable[int]) -> str:
    """Warps in words, by number: "warps 0, 2 to 4"."""
    given = [int(number) for number in numbers]
    listed = ", ".join(map(str, given)) if len(given) < 4 else runs_in_words(given)
    return f"warp{'s' if len(given) > 1 else ''} {listed}"


def _waits(rows: NDArray[np.intp]) -> str:
    return "wait" if len(rows) > 1 else "waits"


def lanes_in_words(lanes: NDArray[np.bool_]) -> str:
    """Lanes of a warp, bool [lane], in words: "lanes 0 to 15, 20"."""
    return f"lane{'s' if lanes.sum() > 1 else ''} {runs_in_words(np.flatnonzero(lanes).tolist())}"


def _wait(lanes: NDArray[np.bool_]) -> str:
    return "wait" if lanes.sum() > 1 else "waits"


def _who_waits(warps: NDArray[np.intp], lanes: Lanes, one: str = "waits", many: str = "wait") -> str:
    """Who does something, in words, of threads bool [one of `warps`, lane]: "lanes 1 to 3 of warp 0 wait"."""
    some = lanes.any(axis=1)
    who = _threads_in_words(_spread(lanes[some], warps[some], (int(warps.max()) + 1, WARP_SIZE)))
    alone = "," not in who and who.startswith(("warp ", "lane ")) and " warps " not in who
    return f"{who} {one if alone else many}"


def _spread(lanes: Lanes, rows: NDArray[np.intp], shape: tuple[int, ...]) -> Lanes:
    whole = np.zeros(shape, np.bool_)
    whole[rows] = lanes
    return whole


def _threads_in_words(threads: Lanes) -> str:
    """Threads bool [warp, lane] of a CTA in words: whole warps first, then lanes of others that are alike."""
    full = np.flatnonzero(threads.all(axis=1))
    words = [_warps(full.tolist())] if len(full) else []
    partly = np.flatnonzero(threads.any(axis=1) & ~threads.all(axis=1))
    for pattern in dict.fromkeys(threads[row].tobytes() for row in partly.tolist()):
        alike = [row for row in partly.tolist() if threads[row].tobytes() == pattern]
        words.append(f"{lanes_in_words(threads[alike[0]])} of {_warps(alike)}")
    return ", ".join(words)
