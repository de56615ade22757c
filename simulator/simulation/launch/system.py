"""What a kernel calls and its module does not have: `printf` and `assert`, of which compilers make calls of `vprintf`
and `__assertfail` (CUDA programming guide, "Formatted Output" and "Assertion").

Both are told what to print by addresses: of texts in global memory, and of the values of `printf`, which lie one after
the other in local memory, each at a multiple of its size.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np

from simulator.execute.cta_state import NOTHING
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import SystemCall
from simulator.simulation.launch.run import Run, Step, taken
from simulator.simulation.launch.threads import Group
from simulator.state.registers import Lanes
from simulator.state.shared import AddressError
from simulator.state.windows import LOCAL, WINDOW_BYTES

LONGEST = 4096  # characters of a text
MOST = 1 << 20  # characters that a launch prints: what the buffer of a chip holds, unless told otherwise
_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<digits>\*|\d*))?(?P<size>hh|h|ll|l|L|z|j|t)?(?P<kind>.)"
)
_WIDE = ("l", "ll", "z", "j", "t")


def system_call(item: SystemCall) -> Step:
    """Executes a call of the system for the threads that come to it, one after the other."""

    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, item.guard)
        if run.note is not None:
            run.note(place, group.rows, group.lanes, NOTHING)
        for index, row in enumerate(group.rows.tolist()):
            for lane in np.flatnonzero(lanes[index]).tolist():
                thread = Thread(run.state, row, lane)
                values = [thread.integer(LOCAL + offset, size) for offset, size in item.arguments]
                if item.name == "__assertfail":
                    _assert(run, item, thread, values)
                count = _print(run, thread, values)
                if item.result is not None:
                    thread.store(item.result, count)
        return place + 1

    return step


class Thread:
    """What one thread sees of memory."""

    def __init__(self, state: LaunchState, row: int, lane: int) -> None:
        self.state, self.row, self.lane = state, row, lane

    def read(self, address: int, size: int) -> bytes:
        """Bytes at a generic address of global or local memory."""
        state, row = self.state, np.array([self.row], np.intp)
        if LOCAL <= address < LOCAL + WINDOW_BYTES:
            where = np.full((1, 32), address - LOCAL, np.int64)
            return bytes(state.local.read(where, size, row, self._alone())[0, self.lane])
        return bytes(state.memory.read(np.array([address], np.int64), size)[0])

    def store(self, offset: int, value: int) -> None:
        """Writes 32 bits into local memory."""
        data = np.broadcast_to(np.frombuffer(value.to_bytes(4, "little"), np.uint8), (1, 32, 4))
        where = np.full((1, 32), offset, np.int64)
        self.state.local.write(where, data, np.array([self.row], np.intp), self._alone())

    def _alone(self) -> Lanes:
        alone = np.zeros((1, 32), np.bool_)
        alone[0, self.lane] = True
        return alone

    def integer(self, address: int, size: int) -> int:
        return int.from_bytes(self.read(address, size), "little")

    def text(self, address: int) -> str:
        """The characters up to the first zero."""
        if address == 0:
            return "(null)"
        found = bytearray()
        while len(found) < LONGEST:
            byte = self.read(address + len(found), 1)
            if byte == b"\0":
                break
            found += byte
        return found.decode("utf-8", "replace")


def _assert(run: Run, item: SystemCall, thread: Thread, values: list[int]) -> None:
    """Ends the launch with what `assert` says."""
    message, file, line, function = (thread.text(values[0]), thread.text(values[1]), values[2], thread.text(values[3]))
    reason = f"assertion '{message}' of {function} failed ({file}:{line}), by lane {thread.lane}"
    raise run.error(item, reason, "what the kernel asserts", row=thread.row, rule="assertion")


def _print(run: Run, thread: Thread, values: list[int]) -> int:
    """Prints, and returns what the function returns: how many values there were."""
    pieces = list(formatted(thread, thread.text(values[0]), values[1]))
    run.printed += "".join(text for text, _ in pieces)[: max(MOST - len(run.printed), 0)]
    return sum(count for _, count in pieces)


def formatted(thread: Thread, form: str, address: int) -> Iterator[tuple[str, int]]:
    """The pieces of what `printf` prints, each with how many values it takes; the values lie from `address` on."""
    end = 0

    def value(size: int) -> bytes:
        nonlocal address
        address = -(-address // size) * size
        address += size
        return thread.read(address - size, size)

    for found in _DIRECTIVE.finditer(form):
        yield form[end : found.start()], 0
        end = found.end()
        kind, wide = found["kind"], found["size"] in _WIDE
        if kind == "%":
            yield "%", 0
            continue
        used = 0
        numbers = []
        for part in ("width", "digits"):
            if found[part] == "*":
                used += 1
                numbers.append(str(int.from_bytes(value(4), "little", signed=True)))
            else:
                numbers.append(found[part] or "")
        spec = f"%{found['flags']}{numbers[0]}" + (f".{numbers[1]}" if found["digits"] is not None else "")
        yield _one(spec, kind, value(8 if wide or kind in "eEfFgGaAsp" else 4), thread), used + 1
    yield form[end:], 0


def _one(spec: str, kind: str, data: bytes, thread: Thread) -> str:
    """One value as a directive wants it."""
    if kind in "eEfFgG":
        return f"{spec}{kind}" % struct.unpack("<d", data)
    number = int.from_bytes(data, "little", signed=kind in "di")
    match kind:
        case "d" | "i" | "u":
            return f"{spec}d" % number
        case "o" | "x" | "X":
            return f"{spec}{kind}".replace("#", "" if kind == "o" or not number else "#") % number
        case "c":
            return f"{spec}c" % (number & 0xFF)
        case "s":
            return f"{spec}s" % thread.text(number)
        case "p":
            return f"{spec}s" % hex(number)
        case "a" | "A":
            return f"{spec}s" % float(struct.unpack("<d", data)[0]).hex()
    raise AddressError(f"printf with '%{kind}'", "d i u o x X c s p e E f F g G a A", rule="not-executable")
