"""An interpreter of the PTX that the kernels here have: copies of CTAs are executed together, the threads with the
lowest place in the text first (docs/faults_launches.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.golden.again.fragments import codes, form_of, gather
from tests.golden.again.kernel import Item, Kernel
from tests.golden.again.program import FOREVER, Line, multiplied
from tests.golden.again.rows import FULL

GONE, WAITING, PARKED = 1 << 30, 1 << 29, 1 << 28
"""Places of threads that have ended; that wait at a barrier; that wait for others of their warp at an aligned
instruction (its place added)."""


def _signed(values: Any, bits: int = 32) -> Any:
    return values if bits == 64 else (values & FULL ^ 1 << 31) - (1 << 31)


def _as_float(values: Any) -> Any:
    return values.astype(np.uint32).view(np.float32)


class Machine:
    """Copies of a CTA each, with registers [copy, thread], shared memory and the buffers [copy, word]."""

    def __init__(self, kernel: Kernel, ctas: Any, memory: Any) -> None:
        self.kernel, self.memory = kernel, memory
        grid, block = kernel.capture["grid"], kernel.capture["block"]
        self.threads, copies = int(np.prod(block)), len(ctas)
        self.warps = self.threads // 32
        self.shared = np.zeros((copies, -(-kernel.shared_bytes // 4)), np.uint32)
        thread = np.broadcast_to(np.arange(self.threads), (copies, self.threads))
        across = np.broadcast_to(np.asarray(ctas)[:, None], thread.shape)
        self.special = {"%tid.x": thread, "%ctaid.x": across % grid[0], "%ctaid.y": across // grid[0] % grid[1],
                        "%ntid.x": np.full(thread.shape, block[0])}  # fmt: skip
        self.registers: dict[str, Any] = {}
        self.place = np.zeros(thread.shape, np.int64)
        self.counts = np.zeros((copies, self.warps), np.int64)
        self.stopped = np.full(copies, "", object)
        self.legality, self.ordered = np.zeros((2, copies), np.bool_)
        self.written = np.full(memory.shape, -1)  # the place that wrote each word of the buffers
        self.seen: Any = np.zeros(memory.shape, np.bool_)  # words of the buffers that were read
        self.limit = np.full(copies, FOREVER)
        self.bases = list(kernel.bases.items())
        starts = np.cumsum([0, *(len(words) for words in kernel.buffers.values())])
        self.windows = [(kernel.bases[name], int(starts[number]), 4 * len(words))
                        for number, (name, words) in enumerate(kernel.buffers.items())]  # fmt: skip

    def register(self, name: str) -> Any:
        """A register of all copies, to read and to write."""
        if name not in self.registers:
            self.registers[name] = np.zeros(self.place.shape, np.int64)
        return self.registers[name]

    def run(self, strike: Callable[[Machine, Any, Any], None]) -> None:
        """Executes until all threads have ended; `strike` is told which copies go on, and which of their warps."""
        everyone = np.ones((len(self.place), self.warps), np.bool_)
        strike(self, np.arange(len(self.place)), everyone)
        while True:
            lowest = self.place.min(axis=1)
            place = int(lowest.min())
            if place >= PARKED:
                self._stop(np.flatnonzero(lowest < GONE), "deadlock")
                return
            copies = np.flatnonzero(lowest == place)
            active = self.place[copies] == place
            warps = active.reshape(len(copies), self.warps, 32).any(axis=2)
            item = self.kernel.items[place]
            self._execute(item, place, copies, active)
            if not (item.opcode.startswith(("bra", "ret")) and not item.guard):
                if item.opcode.startswith(("mma", "ldmatrix")):  # a warp that waits has not executed it
                    warps = warps & (self.place[copies].reshape(*warps.shape, 32) == place + 1).any(axis=2)
                self.counts[copies] += warps
                self._stop(copies[self.counts[copies].sum(axis=1) > self.limit[copies]], "endless")
                strike(self, copies, warps)

    def _stop(self, copies: Any, why: str) -> None:
        new = copies[self.stopped[copies] == ""]
        self.stopped[new] = why
        self.place[new] = GONE

    # Operands

    def _read(self, name: str, copies: Any, bits: int = 32) -> Any:
        """An operand [copy, thread]."""
        if name in self.special:
            return self.special[name][copies]
        if name.startswith("%"):
            return self.register(name)[copies]
        if name.startswith("0f"):
            return np.int64(int(name[2:], 16))
        if re.fullmatch(r"-?\w*\d+", name) and not name.startswith("_"):
            return np.int64(int(name, 0)) if bits == 64 else np.int64(int(name, 0) & FULL)
        return np.int64(0)  # the one variable in shared memory, which begins there

    def _write(self, name: str, copies: Any, active: Any, values: Any) -> None:
        register = self.register(name)
        register[copies] = np.where(active, values, register[copies])

    def _address(self, operand: str, copies: Any) -> Any:
        base, _, offset = operand.strip("[]").partition("+")
        return self._read(base, copies, 64) + int(offset or 0)

    def _windowed(self, address: Any, size: int, copies: Any, active: Any) -> tuple[Any, Any]:
        """The byte of all buffers at each address, and which threads may go on; stops copies that leave them."""
        found = np.full(address.shape, -1)
        for base, first, length in self.windows:
            inside = (address >= base) & (address + size <= base + length)
            found = np.where(inside, address - base + 4 * first, found)
        self._stop(copies[(active & (address % size != 0)).any(axis=1)], "misaligned-address")
        self._stop(copies[(active & (found < 0)).any(axis=1)], "illegal")
        return np.maximum(found, 0), active & (self.stopped[copies] == "")[:, None]

    # Instructions

    def _execute(self, item: Item, place: int, copies: Any, active: Any) -> None:
        kind = item.opcode.split(".")[0]
        mine = active
        if item.guard:
            truth = self.register(item.guard)[copies] != 0
            mine = active & (truth != item.unless)
        self.place[copies] = np.where(active, place + 1, self.place[copies])
        special = {"bra": self._branch, "ret": self._return, "ld": self._load, "st": self._store, "mma": self._mma,
                   "cp": self._copy, "bar": self._barrier, "ldmatrix": self._matrices}.get(kind)  # fmt: skip
        if special is not None:
            special(item, place, copies, mine)
            return
        bits = 64 if item.opcode.endswith("64") and kind != "cvt" else 32
        values = [self._read(name, copies, bits) for name in item.operands[1:]]
        self._write(item.operands[0], copies, mine, _computed(item.opcode, values))

    def _branch(self, item: Item, _: int, copies: Any, mine: Any) -> None:
        self.place[copies] = np.where(mine, self.kernel.labels[item.label], self.place[copies])

    def _return(self, item: Item, _: int, copies: Any, mine: Any) -> None:
        self.place[copies] = np.where(mine, GONE, self.place[copies])
        lanes = self.place[copies].reshape(len(copies), self.warps, 32)
        first = lanes.min(axis=2, keepdims=True)
        met = (first >= PARKED) & (first < WAITING) & ((lanes == first) | (lanes == GONE)).all(axis=2, keepdims=True)
        lanes = np.where(met & (lanes == first), lanes - PARKED, lanes)
        self.place[copies] = lanes.reshape(len(copies), -1)
        self._released(copies)

    def _whole(self, place: int, copies: Any, active: Any) -> Any:
        """The threads that execute an aligned instruction: those of warps all of whose threads have come or ended. The
        others wait."""
        lanes = self.place[copies].reshape(len(copies), self.warps, 32)
        mine = active.reshape(lanes.shape)
        here = mine | (lanes == PARKED + place)
        torn = mine.any(axis=2, keepdims=True) & ~(here | (lanes == GONE)).all(axis=2, keepdims=True)
        goes = here & mine.any(axis=2, keepdims=True) & ~torn
        lanes = np.where(torn & mine, PARKED + place, np.where(goes, place + 1, lanes))
        self.place[copies] = lanes.reshape(len(copies), -1)
        return goes.reshape(len(copies), -1)

    def _barrier(self, item: Item, place: int, copies: Any, active: Any) -> None:
        self.place[copies] = np.where(active, WAITING + place + 1, self.place[copies])
        self._released(copies)

    def _released(self, copies: Any) -> None:
        """Lets threads go on that wait at a barrier to which all have come that have not ended."""
        places = self.place[copies]
        full = (places >= WAITING).all(axis=1)[:, None] & (places < GONE)
        self.place[copies] = np.where(full, places - WAITING, places)

    def _load(self, item: Item, _: int, copies: Any, active: Any) -> None:
        target, source = item.operands
        if ".param" in item.opcode:
            self._write(target, copies, active, self.kernel.parameters[source.strip("[]")])
            return
        size = int(item.opcode[-2:]) // 8
        where, active = self._windowed(self._address(source, copies), size, copies, active)
        spots = where // 4
        words = self.memory[copies[:, None], spots].astype(np.int64)
        copy, thread = np.nonzero(active)
        self.seen[copies[copy], spots[copy, thread]] = True
        self._write(target, copies, active, words >> 8 * (where % 4) & (1 << 8 * size) - 1)

    def _store(self, item: Item, place: int, copies: Any, active: Any) -> None:
        target, source = item.operands
        where, active = self._windowed(self._address(target, copies), 4, copies, active)
        values = np.broadcast_to(self._read(source, copies), where.shape)
        copy, thread = np.nonzero(active)
        spot = where[copy, thread] // 4
        self.memory[copies[copy], spot] = values[copy, thread]
        self.written[copies[copy], spot] = place

    def _in_shared(self, address: Any, size: int, copies: Any, active: Any) -> tuple[Any, Any]:
        address = address & FULL
        self._stop(copies[(active & (address + size > self.kernel.shared_bytes)).any(axis=1)], "illegal")
        self._stop(copies[(active & (address % size != 0)).any(axis=1)], "misaligned-address")
        active = active & (self.stopped[copies] == "")[:, None]
        return np.where(address + size <= self.kernel.shared_bytes, address // 4, 0), active

    def _copy(self, item: Item, _: int, copies: Any, active: Any) -> None:
        """An asynchronous copy is there at once."""
        if "shared" not in item.opcode:
            return
        target, source, _size, given = item.operands
        count = np.broadcast_to(self._read(given, copies), active.shape)
        self._stop(copies[(active & (count > 16)).any(axis=1)], "illegal")
        active = active & (self.stopped[copies] == "")[:, None]
        address = self._address(source, copies)
        reads = active & (count > 0)
        self._stop(copies[(active & (address % 16 != 0)).any(axis=1)], "misaligned-address")
        where = np.full(address.shape, -1)
        for base, begin, length in self.windows:
            inside = (address >= base) & (address + count <= base + length)
            where = np.where(inside, address - base + 4 * begin, where)
        self._stop(copies[(reads & (where < 0)).any(axis=1)], "illegal")
        spots, active = self._in_shared(self._address(target, copies), 16, copies, active)
        copy, thread = np.nonzero(active)
        for word in range(4):
            left = np.clip(count[copy, thread] - 4 * word, 0, 4)
            spot = np.where(left > 0, where[copy, thread] // 4 + word, 0)
            values = self.memory[copies[copy], spot].astype(np.int64) & (np.int64(1) << 8 * left) - 1
            self.shared[copies[copy], spots[copy, thread] + word] = values
            there = left > 0
            self.seen[copies[copy][there], spot[there]] = True

    def _matrices(self, item: Item, place: int, copies: Any, active: Any) -> None:
        active = self._whole(place, copies, active)
        targets = item.operands[0].strip("{}").split(",")
        spots, active = self._in_shared(self._address(item.operands[1], copies), 16, copies, active)
        spots = spots.reshape(len(copies), self.warps, 4, 8)  # matrix, row
        for number, name in enumerate(targets):
            words = spots[:, :, number, :, None] + np.arange(4)
            values = self.shared[copies[:, None], words.reshape(len(copies), -1)].astype(np.int64)
            self._write(
                name.strip(), copies, np.repeat(active.reshape(-1, self.warps, 32).any(axis=2), 32, axis=1), values
            )

    def _mma(self, item: Item, place: int, copies: Any, active: Any) -> None:
        active = self._whole(place, copies, active)
        names = [name.strip() for operand in item.operands[:5] for name in operand.strip("{}").split(",")]
        pair, warp = np.nonzero(active.reshape(len(copies), self.warps, 32).any(axis=2))
        if not len(pair):
            return
        values = np.stack([self.register(name)[copies].reshape(len(copies), self.warps, 32)[pair, warp]
                           for name in names[4:]]).astype(np.uint32)  # fmt: skip
        form, selector = form_of(item.opcode), int(item.operands[5], 0)
        read = gather(values[12][:, None], codes(form, selector), 4)
        self.legality[copies[pair[(~form.defined[read]).any(axis=(1, 2))]]] = True
        self.ordered[copies[pair[(~form.ascending[read]).any(axis=(1, 2))]]] = True
        found = _products(item.opcode, values, selector)
        for number, name in enumerate(names[:4]):
            whole = self.register(name)[copies].reshape(len(copies), self.warps, 32)
            whole[pair, warp] = found[:, number]
            self._write(name, copies, active, whole.reshape(len(copies), -1))


def _products(opcode: str, values: Any, selector: int) -> Any:
    """D of warps, of which those with the same operands are multiplied once."""
    keys = np.ascontiguousarray(np.moveaxis(values, 0, 1)).reshape(values.shape[1], -1)
    first: dict[bytes, int] = {}
    which = np.array([first.setdefault(key.tobytes(), number) for number, key in enumerate(keys)])
    some, inverse = np.unique(which, return_inverse=True)
    pieces = [some[start : start + 64] for start in range(0, len(some), 64)]
    done = [_multiplied_of(opcode, values[:, piece], selector) for piece in pieces]
    return np.concatenate(done)[inverse]


def _multiplied_of(opcode: str, values: Any, selector: int) -> Any:
    return multiplied(Line(opcode, (), ()), values, np.full(values.shape[1], selector))


def _computed(opcode: str, values: list[Any]) -> Any:
    """The result of an instruction without memory."""
    kind, *words = opcode.split(".")
    wide = words[-1].endswith("64") if words else False
    signed = bool(words) and words[-1].startswith("s")
    if kind in ("mov", "cvta"):
        return values[0]
    if kind == "cvt":
        return {("s64", "s32"): lambda: _signed(values[0]), ("u64", "u32"): lambda: values[0] & FULL,
                ("u32", "u16"): lambda: values[0] & 0xFFFF, ("u32", "u64"): lambda: values[0] & FULL,
                }[words[0], words[1]]()  # fmt: skip
    if kind == "setp":
        a, b = (_signed(value) for value in values) if signed else values
        return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[words[0]]
    if kind == "selp":
        return np.where(values[2] != 0, values[0], values[1])
    if words[-1] == "f32":
        with np.errstate(invalid="ignore", over="ignore"):
            found = _as_float(values[0]) + _as_float(values[1])
        return np.where(np.isnan(found), 0x7FFFFFFF, found.view(np.uint32).astype(np.int64))
    if kind in ("mul", "mad") and words[0] == "wide":
        a, b = (_signed(value) if signed else value for value in values[:2])
        return a * b
    if kind == "bfi":
        field = (np.int64(1) << values[3]) - 1 << values[2]
        return (values[1] & ~field | values[0] << values[2] & field) & FULL
    if kind in ("shl", "shr"):
        top = 63 if wide else 31
        by = np.minimum(values[1] & FULL, top + 1)
        if kind == "shl":
            found = np.where(by > top, 0, values[0] << np.minimum(by, top))
        else:
            a = _signed(values[0], 64 if wide else 32) if signed else values[0]
            found = np.where(by > top, np.where(a < 0, -1, 0), a >> np.minimum(by, top))
        return found if wide else found & FULL
    with np.errstate(over="ignore"):
        a, b = values[:2]
        if kind in ("max", "min"):
            a, b = (_signed(a), _signed(b)) if signed else (a, b)
            return (np.maximum(a, b) if kind == "max" else np.minimum(a, b)) & FULL
        found = {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "mad": lambda: a * b + values[2],
                 "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b}[kind]()  # fmt: skip
    return found if wide else found & FULL
