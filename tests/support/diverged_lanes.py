"""A model of drawn kernels of `measurements.diverged`, one Python generator for each lane: it runs the statements,
not the PTX, and knows nothing of places. A lane that comes to an exchange yields what it is and gives, and waits until
all lanes of its mask that have not exited have come to the same one."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Generator
from functools import reduce
from typing import Any

from measurements.diverged import CTAS, THREADS, Block, Statement, drawn

WORD = 0xFFFFFFFF
Arrival = tuple[tuple[str, str], int, Any]  # opcode, mask, what the lane gives
Lane = Generator[Arrival, Any, int]


def expected(seed: int, order: int = 0) -> list[int]:
    """The words that the kernel of a seed leaves; `order` draws which lane goes on when."""
    program = drawn(seed)
    return [
        word
        for cta in range(CTAS)
        for warp in range(THREADS // 32)
        for word in _warp(program, seed, cta * THREADS + warp * 32, random.Random(order))
    ]


def _warp(program: Block, seed: int, first: int, rng: random.Random) -> list[int]:
    lanes = [_lane(program, lane, (first + lane) * 2654435761 + seed * 40503 + 12345 & WORD) for lane in range(32)]
    results: dict[int, int] = {}
    waiting: dict[int, Arrival] = {}
    ready: list[tuple[int, Any]] = [(lane, None) for lane in range(32)]
    while ready:
        lane, value = ready.pop(rng.randrange(len(ready)))
        try:
            waiting[lane] = lanes[lane].send(value)
        except StopIteration as stop:
            results[lane] = stop.value
        for kind, mask in {(kind, mask) for kind, mask, _ in waiting.values()}:
            here = [each for each, arrival in waiting.items() if arrival[:2] == (kind, mask)]
            if all(each in here or each in results for each in range(32) if mask >> each & 1):
                given = {each: waiting.pop(each)[2] for each in sorted(here)}
                ready += [(each, _result(kind, each, given)) for each in given]
    assert not waiting, "lanes wait for ever"
    return [results[lane] for lane in range(32)]


def _result(kind: tuple[str, str], lane: int, given: dict[int, Any]) -> Any:
    opcode, what = kind
    match opcode:
        case "shfl":
            return given[given[lane][1]][0]
        case "vote":
            true = [each for each, value in given.items() if value]
            return {
                "all": len(true) == len(given), "any": bool(true), "uni": len(true) in (0, len(given)),
                "ballot": sum(1 << each for each in true),
            }[what]  # fmt: skip
        case "match":
            same = sum(1 << each for each, value in given.items() if value == given[lane])
            every = sum(1 << each for each in given)
            return same if what == "any" else every if same == every else 0
        case "redux":
            values = [value - (1 << 32) if ".s32" in what and value >> 31 else value for value in given.values()]
            combine: dict[str, Callable[[int, int], int]] = {
                "add": lambda a, b: a + b,
                "min": min,
                "max": max,
                "and": lambda a, b: a & b,
                "or": lambda a, b: a | b,
                "xor": lambda a, b: a ^ b,
            }
            return reduce(combine[what.split(".")[0]], values) & WORD
    return None


class _LeftError(Exception):
    """A lane has exited."""


def _lane(program: Block, lane: int, x: int) -> Lane:
    own = _Own(lane, x)
    with contextlib.suppress(_LeftError):
        yield from own.block(program, WORD)
    return own.x


class _Own:
    """What one lane knows: its number and its word."""

    def __init__(self, lane: int, x: int) -> None:
        self.lane, self.x = lane, x

    def below(self, shift: int, limit: int) -> bool:
        return (self.x >> shift & 7) < limit

    def block(self, block: Block, mask: int) -> Generator[Arrival, Any, int]:
        """Runs statements; returns the mask behind them."""
        for statement in block:
            match statement:
                case ("mix", a, c):
                    self.x = (self.x * a + c + self.lane) & WORD
                case ("if", shift, limit, then, other):
                    own = self.below(shift, limit)
                    true = yield ("vote", "ballot"), mask, own
                    yield from self.block(then if own else other, mask & (true if own else ~true))
                case ("loop", shift, body):
                    turns, left = self.x >> shift & 3, mask
                    for turn in range(turns + 1):
                        left &= yield ("vote", "ballot"), left, turn < turns
                        if turn < turns:
                            yield from self.block(body, left)
                case ("leave", shift):
                    own = self.below(shift, 1)
                    true = yield ("vote", "ballot"), mask, own
                    if own:
                        raise _LeftError
                    mask &= ~true
                case ("cross", sync, mix):
                    if self.x & 1:
                        yield from self.block([mix], mask)
                    yield from self.sync(sync, mask)
                case _:
                    yield from self.sync(statement, mask)
        return mask

    def sync(self, statement: Statement, mask: int) -> Generator[Arrival, Any, None]:
        kind, what, a, c = statement
        match kind:
            case "shfl":
                source = self.lane * a + c & 31
                source = min(source, self.lane) if what == "up" else source
                source = max(source, self.lane) if what == "down" else source
                source = source if mask >> source & 1 else self.lane
                got = (yield ("shfl", what), mask, (self.x, source)) + 1
            case "vote":
                got = yield ("vote", what), mask, self.below(a % 29, 1 + c % 7)
                got = got if what == "ballot" else 77 if got else 5
            case "match":
                got = yield ("match", what), mask, self.x >> a % 29 & 3
                got += 9 if what == "all" and got else 0
            case "redux":
                got = yield ("redux", what), mask, self.x
            case "bar":
                yield ("bar", ""), mask, None
                got = 3
            case _:
                own = self.below(a % 29, 1 + c % 7)
                got = yield ("vote", "ballot"), mask, own
                if own:
                    got = yield ("redux", "add.u32"), got, self.x
        self.x = (self.x << 1 ^ got) & WORD
