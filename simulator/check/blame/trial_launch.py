"""A launch that is run again with changes: the CTAs that are chosen, in an arena, and as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.check.blame.arena import JUNK, Arena, Changes, Results
from simulator.check.blame.change import executor_of
from simulator.check.blame.mixing import Skip, skipping
from simulator.check.blame.search import Search
from simulator.check.blame.timer import Timer
from simulator.check.expected import output_arrays, wrong_elements
from simulator.program.capture import Capture
from simulator.program.kernel import Operation
from simulator.simulation.launch.batches import Setup, batches, may_part, starting, waits_for_others
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.interpreter import prepared, step_of
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.meetings import mask_of
from simulator.simulation.launch.run import Run
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import DeviceMemory

MOST_RAN = 20_000_000  # warp instructions of a launch that is run again as a whole to confirm an answer
MOST_RAN_STOPPED = 2_000_000  # the same of one that stops: nobody knows how many it takes
ROWS = 1024  # warps that all copies have together at most
COPIES = 128  # at most
MEMORY = 1 << 27  # bytes of the buffers of all copies at most
WHOLE_ROWS = 4  # warps of a launch of which each copy runs all CTAs
MOST_CTAS = 4  # that write the same elements and are run together
SLACK, SPINNING = 1.25, 2.0  # times as many items as a trial may take; where threads look until others have written
SAMPLED = 64  # CTAs of which it is found out what they write


@dataclass(frozen=True)
class Stop:
    """Where a launch stops.

    Attributes:
        places: of the items.
        ctas: int64 [CTA]: those that stop; None: all.
        most: items that it may take until it has ended.
    """

    places: Set[int]
    ctas: NDArray[np.int64] | None
    most: int


def _fresh(capture: Capture, setup: Setup, options: Options) -> Setup:
    """The launch before it has run."""
    memory = place(capture).memory
    fresh = prepare(setup.kernel, capture.grid, capture.block, memory, setup.params, options)
    return replace(fresh, completion=None)


def search_of(
    capture: Capture,
    setup: Setup,
    options: Options,
    rtol: float,
    atol: float,
    timer: Timer,
    seconds: float,
    stop: Stop | None = None,
) -> Search | None:
    """The arena with some CTAs that hold wrong elements, or that stop, and what they leave as it is; None if it has no
    room, or nothing stops."""
    initial = _fresh(capture, setup, options)
    written = list(capture.after)
    written += [each.name for each in setup.memory.buffers if each.name not in written
                and each.name in {other.name for other in initial.memory.buffers}
                and not np.array_equal(each.data, initial.memory[each.name].data)]  # fmt: skip
    geometry = initial.geometry
    size = int(np.prod(geometry.cluster))
    every = np.arange(geometry.ctas)
    whole = not may_part(initial.kernel) or geometry.ctas * geometry.warps <= WHOLE_ROWS
    if whole:
        ctas: NDArray[np.int64] | None = every
    elif stop is not None:
        ctas = stop.ctas
    else:
        ctas = _wrong_ctas(capture, initial, written, rtol, atol)
    if ctas is None:
        whole, ctas = True, every
    if size > 1:
        ctas = geometry.whole_clusters(ctas)
    rows = len(ctas) * geometry.warps
    if rows > ROWS:
        return None
    room = sum(initial.memory[name].size for name in written) * 3 + 1
    copies = int(np.clip(min(ROWS // rows, MEMORY // room), 1, COPIES))
    given = setup.memory if whole and stop is None else None
    arena, results = _arena(initial, ctas, (written, capture.after), copies, stop, given)
    if stop is None:
        more = SPINNING if waits_for_others(initial.kernel) else SLACK
        arena.most = max(int(arena.items * more), 2 * len(initial.kernel.items)) + 200
    executed = frozenset(arena.executed)
    base = {name: results.data[name][0] for name in capture.after}
    before = {name: initial.memory[name].data.copy() for name in capture.after}
    owned = owned_elements(capture, arena, {name: rows[:1] for name, rows in results.data.items()}, None)

    def confirmed(changes: Changes) -> int:
        return mends(capture, setup, options, changes, rtol, atol, MOST_RAN if stop is None else MOST_RAN_STOPPED)

    owned_here = {name: each[0] for name, each in owned.items()}
    search = Search(
        capture, initial.kernel, arena, base, before, rtol, atol, owned_here, whole, timer, seconds, confirmed, executed
    )
    stops = stop is None or search.wrong > 0 or not results.ended.all()
    return search if stops else None


def owned_elements(
    capture: Capture, arena: Arena, results: Mapping[str, NDArray[np.uint8]], ctas: NDArray[np.int64] | None
) -> dict[str, NDArray[np.bool_]]:
    """By buffer, bool [trial, *shape]: the elements that CTAs write: those that are not what they were, or would not be
    if the buffers had begun with the opposite bits.

    Args:
        results: what they leave, uint8 [trial, byte].
        ctas: int64 [trial, CTA], or None: those of the arena.
    """
    count = len(next(iter(results.values())))
    arena.turned = True
    turned = arena.run([{}] * count, ctas).data
    arena.turned = False
    found = {}
    for name, expected in capture.after.items():
        initial = arena.setup.memory[name].data
        changed = (results[name] != initial) | (turned[name] != ~initial)
        found[name] = changed.reshape(count, *expected.shape, expected.itemsize).any(axis=-1)
    return found


def _arena(
    initial: Setup,
    ctas: NDArray[np.int64],
    buffers: tuple[Sequence[str], Collection[str]],
    copies: int,
    stop: Stop | None,
    given: DeviceMemory | None,
) -> tuple[Arena, Results]:
    """An arena of as many copies as may be, and what they give: copies must all give the same, and what the launch has
    given. The addresses of the buffers that they write come from parameters, or else from tables in memory.

    Args:
        buffers: those that the kernel writes, and those of them that are results: others may hold addresses.
    """
    written, compared = buffers
    for count, tables in ((copies, False), (copies, True), (1, False)):
        arena = Arena(initial, ctas, written, count, strict=stop is not None, tables=tables)
        arena.most = arena.most if stop is None else stop.most
        results = arena.run([{}] * min(2, count))
        if _alike({name: results.data[name] for name in compared}, given):
            break
    return arena, results


def _alike(data: Mapping[str, NDArray[np.uint8]], given: DeviceMemory | None) -> bool:
    """Whether copies give the same, and what the launch gives."""
    same = all(np.array_equal(rows[0], rows[-1]) for rows in data.values())
    return same and (given is None or all(np.array_equal(rows[0], given[name].data) for name, rows in data.items()))


def _wrong_ctas(
    capture: Capture, initial: Setup, written: list[str], rtol: float, atol: float
) -> NDArray[np.int64] | None:
    """The CTA that writes most wrong elements, of those that are looked at, and others that write some of these, too.
    None: none writes any."""
    count = initial.geometry.ctas
    ctas = np.unique(np.linspace(0, count - 1, min(SAMPLED, count)).astype(np.int64))
    room = sum(initial.memory[name].size for name in written) * 3 + 1
    copies = int(np.clip(min(ROWS // initial.geometry.warps, MEMORY // room), 1, len(ctas)))
    arena = Arena(initial, ctas[:1], written, max(copies, 2))
    found: list[tuple[int, int, dict[str, NDArray[np.bool_]]]] = []
    for first in range(0, len(ctas), arena.copies):
        part = ctas[first : first + arena.copies, None]
        results = arena.run([{}] * len(part), part).data
        owned = owned_elements(capture, arena, {name: rows[: len(part)] for name, rows in results.items()}, part)
        for number, cta in enumerate(part[:, 0].tolist()):
            arrays = {
                name: results[name][number].view(each.dtype).reshape(each.shape) for name, each in capture.after.items()
            }
            wrong = wrong_elements(arrays, capture.after, rtol, atol)
            own = {name: each & owned[name][number] for name, each in wrong.items()}
            count = sum(int(each.sum()) for each in own.values())
            if count:
                found.append((count, cta, own))
    if not found:
        return None
    _, chosen, mask = max(found, key=lambda entry: entry[0])
    others = [cta for _, cta, own in found if cta != chosen and any((own[name] & mask[name]).any() for name in mask)]
    return np.sort(np.array([chosen, *others[: MOST_CTAS - 1]]))


def mends(
    capture: Capture,
    setup: Setup,
    options: Options,
    changes: Changes,
    rtol: float = 0.0,
    atol: float = 0.0,
    most: int = MOST_RAN,
) -> int:
    """The warp instructions of the launch as a whole with these changes; 0 if it meets an error, takes more than
    `most`, or does not give what is expected."""
    fresh = _fresh(capture, setup, options)
    code = prepared(fresh.kernel)
    for index, actions in changes.items():
        item = fresh.kernel.items[index]
        assert isinstance(item, Operation)
        if isinstance(actions, Skip):
            code.steps[index] = skipping(code.steps[index], actions)
            continue
        code.steps[index] = step_of(item, executor_of(actions, item.instruction, guarded=True))
        if index in code.meets:
            code.meets[index] = executor_of(actions, item.instruction, guarded=mask_of(item) is None)
    work = 0
    try:
        for ctas, unstarted in starting(fresh, batches(fresh)):
            state = fresh.state(ctas, unstarted=unstarted)
            assert isinstance(state.shared, LaunchShared)
            state.shared.data[:] = JUNK
            run = Run(code, state, most)
            run.run()
            work += sum(run.counts)
    except Error:
        return 0
    wrong = wrong_elements(output_arrays(capture, fresh.memory), capture.after, rtol, atol)
    return 0 if any(each.any() for each in wrong.values()) else work
