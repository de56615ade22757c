"""Two to four warps of a sub-core: which of them issues next, by the clock behind each instruction.

    python measure_issue_order.py build  # the cubin and its codes; no GPU
    python measure_issue_order.py run    # results/issue_order.csv.gz; needs cupy

Each warp runs straight code three times: matrix instructions and reads of the clock, with NOPs and integers between, of
which each has a wait and perhaps the yield hint. The warps run the same code, or each of two its own. Kept are the
clocks of the first sub-core in the last round, so that the code is there. A barrier does not hold warps that issue
without hints, so that rounds of warps overlap.

Columns: `code` (of each warp: 72 x spk16_f16_f16 1 | clock 2h are 72 matrix instructions and clocks with waits of 1 and
2 cycles, the latter with the hint), `warps`; `clocks`: of each warp its reads of the clock.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import machine_code_patch
from clock_template import Coded, template
from machine_code_patch import Word, command, control, guarded, halves, machine_code, replaced

CLOCKS, SLOTS, FIRST, ROUNDS, LENGTH = 100, 420, 28, 3, 72
LEAD = (("nop", 15, False),) * 6  # so that warps with code of their own meet
LAST = 4  # NOPs behind the code
INTERVALS = {"k8_f16_f16": 4, "spk16_f16_f16": 6, "spk32_f16_f16": 8}  # of matrix instructions of these forms
Item = tuple[str, int, bool]  # kind, cycles until the next, yield hint


class Code(NamedTuple):
    """The code of each warp, or of all: so many times some instructions."""

    streams: tuple[tuple[int, tuple[Item, ...]], ...]
    warps: tuple[int, ...]

    def text(self) -> str:
        return "; ".join(
            f"{times} x " + " | ".join(f"{kind} {wait}{'h' * hint}" for kind, wait, hint in items)
            for times, items in self.streams
        )


def codes() -> Iterator[Code]:
    """All that is measured."""
    for every in (1, 2, 3, 4, 5, 6, 8, 10):  # clocks of which every so manieth has the hint
        items = tuple(("clock", 1 + (i == every - 1), i == every - 1) for i in range(every))
        yield Code(((LENGTH // every, items),), (2, 3, 4))
    for form in INTERVALS:
        for matrix, clock in ((False, False), (True, False), (False, True), (True, True)):
            if form != "k8_f16_f16" or not matrix:  # which would wait for its registers
                yield same(((form, 1 + matrix, matrix), ("clock", 1 + clock, clock)), (2, 3, 4))
    for form, interval in list(INTERVALS.items())[1:]:
        for n, wait in ((1, 15), (2, 13), (3, 12), (4, 14)):  # turns of several, then a pause
            part = ((form, 1, False), ("clock", 1, False)) * n
            yield Code(((LENGTH // n, (*part[:-1], ("clock", wait, True))),), (2, 3, 4))
        for first in range(1, interval - 1):  # all places of the clock, and waits
            for second in range(1, interval - first + 1):
                yield same(((form, first, False), ("clock", second, False)), (2, 3))
        for kind in ("nop", "add", "compare"):  # what counts
            for n in (1, 2):
                plain = (form, 1, False), ("clock", 1, False)
                longer = (*plain, *((kind, 1, False),) * n)
                yield Code(((70, plain), (55, longer)), (2,))
                yield Code(((55, longer), (70, plain)), (2,))
    for hint in (False, True):  # clocks of unlike waits
        for waits in ((5, 7), (3, 5), (4, 6), (5, 7, 9), (3, 4, 5), (4, 4, 6)):
            yield Code(tuple((60, (("clock", wait, hint),)) for wait in waits), (len(waits),))


def same(items: tuple[Item, ...], warps: tuple[int, ...]) -> Code:
    return Code(((LENGTH, items),), warps)


class Room(Coded):
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, ptxas: str, nvdisasm: str) -> None:
        super().__init__(folder / "issue_order.cubin", nvdisasm, FIRST)
        machine_code_patch.build(folder, ptxas, nvdisasm)
        self.forms = json.loads((folder / "mma_template.json").read_text())["forms"]

    def instructions(self, items: Iterable[Item]) -> list[Word]:
        """The code of a warp."""
        words, clocks = list[Word](), iter(self.clocks)
        for kind, wait, hint in items:
            if kind == "clock":
                _, register, read = next(clocks)
                low, high = halves(read)
                words.append((guarded(low & ~(0xFF << 16) | register << 16), control(high, wait, hint)))
            elif kind == "nop":
                words.append((self.nop[0], control(self.nop[1], wait, hint)))
            elif kind == "add":
                words.append(self.add(20, 22, 1, wait, hint))
            elif kind == "compare":
                words.append(self.compare(22, 7, wait, hint))
            else:
                low, high = self.forms[kind]
                low = low & ~(0xFFFFFF << 16) | 12 << 16 | 4 << 24 | 8 << 32
                low = low & ~(0xFF << 40) | 2 << 40 if kind.startswith("sp") else low
                words.append((low, control(high & ~0xFF | 12, wait, hint)))
        return words

    def code(self, code: Code) -> bytes:
        """The code of all warps: four of a CTA, one of each sub-core, begin with the same stream."""
        lead = LEAD if len(code.streams) > 1 else ()
        parts = [self.instructions((*lead, *items * times)) for times, items in code.streams]
        words = list[Word]()
        if len(parts) > 1:
            starts = [2 * len(parts) - 1 + sum(len(part) + 1 for part in parts[:i]) for i in range(len(parts) + 1)]
            for place in range(1, len(parts)):
                words.append(self.compare(0, 128 * place, 13, True))
                words.append(self.over(starts[place - 1] - len(words) - 1))
            words.append(self.over(starts[-2] - len(words) - 1, always=True))
            for part in parts:
                words += part
                words.append(self.over(starts[-1] - len(words) - 1, always=True))
        else:
            words += parts[0]
        nop = self.nop[0], control(self.nop[1], 15, True)
        words += [(self.thread[0], control(self.thread[1], 15, True)), *[nop] * LAST]
        words.append(self.over(self.slots - len(words) - 1, always=True))
        assert len(words) <= self.slots, f"{len(words)} instructions, room for {self.slots}"
        return machine_code(words)


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "issue_order.ptx", folder / "issue_order.cubin"
    source.write_text(template(CLOCKS, range(12, 24), SLOTS, ROUNDS))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room = Room(folder, ptxas, nvdisasm)
    found = [room.code(code).hex() for code in codes()]
    cubin.write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "codes": found}
    (folder / "issue_order.json").write_text(json.dumps(data))
    print(len(found), "codes")


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    data = json.loads((folder / "issue_order.json").read_text())
    cubin = (folder / "issue_order.cubin").read_bytes()
    source, target = cupy.zeros(1 << 18, dtype=cupy.uint32), cupy.zeros(1 << 15, dtype=cupy.uint32)
    rows = []
    for code, raw in zip(codes(), data["codes"], strict=True):
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(raw), data))
        for warps in code.warps:
            for _ in range(2):  # the first launch fetches the code
                module.get_function("template")((1,), (128 * warps,), (target, source))
            clocks = cupy.asnumpy(target)[: 1024 * warps].reshape(-1, 256)[::4, data["stored"]].astype(int)
            own = []
            for warp, found in enumerate(clocks.tolist()):
                times, items = code.streams[warp % len(code.streams)]
                own.append(found[: times * sum(kind == "clock" for kind, *_ in items)])
            first = min(min(found) for found in own)
            rows.append(
                f"{code.text()},{warps},{'; '.join('/'.join(str(c - first) for c in found) for found in own)}\n"
            )
    with gzip.GzipFile(results / "issue_order.csv.gz", "wb", mtime=0) as file:
        file.write(
            f"# {device.name}, {date}; the first sub-core of one SM\ncode,warps,clocks\n{''.join(rows)}".encode()
        )
    print(len(rows), "rows")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
