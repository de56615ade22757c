"""Straight code of warps with reads of the clock, as measurements/measure_shared_memory_iterations.py and
measure_kept_operands.py write and measure it, in the simulation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from simulator.chip.config import load_config
from simulator.compiler.operation_parts import BOARDS, Arithmetic, Scoreboards
from simulator.compiler.timed_code import Periodic, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.machine.observer import Stall, TimingObserver, Waits
from simulator.studies.validation import pieces, turns
from simulator.timing.run import simulate

H100 = load_config("h100_sxm")
KNOWN = turns.accesses(H100)
READ = Arithmetic(writes=True)  # of a clock
CLOCK = 1  # the line of a read of the clock; all else has another
END = KNOWN["nothing"].changed(line=0, stall=15, yields=True)  # behind a code
HINTED = 12  # the shortest wait with the yield hint
Step = tuple[str, int, tuple[int, ...]]  # name, cycles until the next, accesses of the body that it waits for


class Clocks(TimingObserver):
    """When each warp reads the clock."""

    steps_until = 1 << 40

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[int, list[int]] = defaultdict(list)

    def issue(
        self, warp: int, core: int, operation: TimedOperation, now: int, stalls: Sequence[Stall], waits: Waits
    ) -> None:
        if operation.line == CLOCK:
            self.of[warp].append(now)


def steps(body: str) -> Iterator[Step]:
    """The steps of a body."""
    parts = [part.partition("&") for part in body.split(" | ")]
    names = [text.strip().rsplit(" ", 1) for text, *_ in parts]
    every = tuple(range(sum(is_access(name) for name, _ in names)))
    for (name, gap), (_, mark, places) in zip(names, parts, strict=True):
        yield name, int(gap), tuple(map(int, places.split("."))) if places else every * bool(mark)


def is_access(name: str) -> bool:
    return name.startswith(("ld", "st."))


def operations(body: Sequence[Step], warp: int) -> Iterator[TimedOperation]:
    """What a warp does in a body."""
    access = 0
    for name, gap, awaited in body:
        boards = {place % BOARDS for place in awaited}
        waits, awaits = {"stall": gap, "yields": gap >= HINTED}, (*boards, *(BOARDS + board for board in boards))
        waiting = Scoreboards(awaits=awaits)
        if is_access(name):
            board, known = access % BOARDS, KNOWN[name]
            value = turns.VALUES + 4 * (access % 8)
            access += 1
            stores = name.startswith("st.")
            assert known.costs is not None
            costs: Mapping[int, Periodic[int]] = {warp: known.costs[0]}
            yield known.changed(
                reads=(), writes=tuple(range(value, value + len(known.writes))), costs=costs,
                boards=Scoreboards(board, -1, awaits) if stores else Scoreboards(-1, BOARDS + board, awaits), **waits,
            )  # fmt: skip
        elif name in ("clock", "nop"):
            clock = name == "clock"
            line = CLOCK if clock else 0
            yield KNOWN["nothing"].changed(line=line, arithmetic=Arithmetic(writes=clock), boards=waiting, **waits)
        else:
            yield pieces.named(KNOWN, name).changed(writes=(), boards=waiting, **waits)


def clocks_of(warps: Mapping[int, tuple[int, Sequence[Step]]], times: int = 1) -> list[list[int]]:
    """The clocks of each warp in the simulation, the first included, which it reads in a given cycle, 30 before its
    body begins, which it runs so many times."""
    codes = {}
    for warp, (_, body) in warps.items():
        codes[warp] = [END.changed(line=CLOCK, arithmetic=READ), END]
        codes[warp] += [each for _ in range(times) for each in operations(body, warp)]
    return read_clocks(codes, [warps[warp][0] if warp in warps else 0 for warp in range(max(warps) + 1)])


def read_clocks(codes: Mapping[int, Sequence[TimedOperation]], starts: Sequence[int]) -> list[list[int]]:
    """The clocks of each warp that runs its code, and an instruction behind it, from a given cycle on."""
    clocks, programs = Clocks(), list[TimedCode]()
    for warp, code in codes.items():
        items: list[TimedOperation | TimedLoop] = [*code, END]
        programs.append(TimedCode((warp,), items, nesting(items), {}, scheduled=True))
    simulate(H100, programs, len(starts), starts=starts, observer=clocks)
    return [clocks.of[warp] for warp in codes]
