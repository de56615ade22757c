"""Validates GEMM kernels: their main loops, accesses to global memory, and whole GEMMs, as an H100 ran them
(measurements/gemm).

There are five groups. `gemm`: the main loop of 102 kernels on one SM in the order of their machine code, as cycles of
an iteration. `memory`: loops of loads, copies and bulk copies on one SM, and the main loops' copies alone. `chip`,
`sizes` and `stages`: whole problems on all SMs, with the kernels that `simulator.studies.gemm` writes.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from simulator.chip.config import Config
from simulator.program.blocks import Repeat
from simulator.program.program import Program
from simulator.program.reader import load
from simulator.resources import folder
from simulator.simulation.session import Session
from simulator.studies.gemm.estimate import kernel_cycles
from simulator.studies.gemm.tile import Tile
from simulator.studies.validation.group import Group, Row
from simulator.tables import read_rows

SOURCE = "measured: H100 80GB, 2026-11-21, measurements/gemm"
MODES = ("whole", "without copies", "without copies and barriers", "copies alone")
_FEW, _MANY = 4, 12  # runs of a loop's body
_SHIFTS = {"ldmatrix": 4, "load1": 2, "load2": 3, "load4": 4}  # lane -> shared address of a load without bank conflicts
_PITCH = 8192  # bytes between rows of an operand in global memory


@cache
def _loops() -> dict[str, dict[str, Any]]:
    with gzip.open(folder("configs") / "measurements" / "h100_gemm_loops.json.gz", "rt") as file:
        return {entry["variant"]: entry for entry in map(json.loads, file)}


def _table(name: str) -> list[dict[str, str]]:
    return read_rows(folder("configs") / "measurements" / name)


# The main loop on one SM


def loop_trace(entry: dict[str, Any], runs: int) -> str:
    """A measured loop as a trace: it sets the addresses in its registers, then runs its body."""
    body: list[str] = entry["body"]
    taken = {int(number) for line in body for number in re.findall(r"%r(\d+)", line)}
    lane, x, y = [number for number in range(254, -1, -1) if number not in taken][:3]
    sizes = {
        line.split("[%r")[1].split("]")[0]: int(line.rsplit(",", 1)[1].strip(" ;"))
        for line in body
        if line.startswith("cp.async.c") and "[" in line
    }
    size = {what: sizes.get(register, 16) for register, what in entry["copies"].items()}
    setup = [f"mov.u32 %r{lane}, %laneid;"]
    for wide, what in entry["sources"].items():
        per_row = 32 if what == "e" else entry[f"row_{what}"] // size[what]
        setup += _rows(wide, size[what], per_row, lane, x, y)
    setup += [f"shl.b32 %r{register}, %r{lane}, {_SHIFTS[what]};" for register, what in entry["loads"].items()]
    setup += [
        f"shl.b32 %r{register}, %r{lane}, {size[what].bit_length() - 1};" for register, what in entry["copies"].items()
    ]
    head = [
        ".trace 1",
        ".target sm_90a",
        f".warps {entry['warps']}",
        ".shared 1024",
        ".global 524288",
        f".warp 0-{entry['warps'] - 1} {{",
    ]
    return "\n".join([*head, *setup, f".repeat {runs} {{", *body, "}", "}"])


def _rows(wide: int | str, size: int, per_row: int, lane: int, x: int, y: int) -> Iterator[str]:
    """Computes %rd = the address of a lane's `size` bytes, with `per_row` lanes to a row."""
    yield f"shr.u32 %r{x}, %r{lane}, {per_row.bit_length() - 1}; mul.lo.u32 %r{x}, %r{x}, {_PITCH};"
    yield (
        f"and.b32 %r{y}, %r{lane}, {per_row - 1}; mad.lo.u32 %r{x}, %r{y}, {size}, %r{x}; cvt.u64.u32 %rd{wide}, %r{x};"
    )


def _cycles(text: str, counts: Iterable[int], config: Config) -> list[int]:
    """Cycles of a trace with each of these numbers of runs of its loop; the trace is read once."""
    program = load(text)
    return [Session(_repeated(program, count), config, arithmetic="none").time().cycles for count in counts]


def _repeated(program: Program, count: int) -> Program:
    """The program with another number of runs of its loops."""
    blocks = (
        replace(
            block,
            body=tuple(replace(node, count=count) if isinstance(node, Repeat) else node for node in block.body),
        )
        for block in program.blocks
    )
    return replace(program, blocks=tuple(blocks))


def iteration(entry: dict[str, Any], config: Config) -> float:
    """Cycles of an iteration: the difference between two numbers of runs of the loop."""
    few, many = _cycles(loop_trace(entry, _FEW), (_FEW, _MANY), config)
    return (many - few) / ((_MANY - _FEW) * int(entry["iterations"]))


_SHORT = (
    "f16_64x64x64_w2x2_s3",
    "f16_128x128x64_w2x2_s2",
    "f16_128x128x128_w2x4_s3",
    "s8_128x64x128_w2x2_s3",
    "s8_128x128x128_w2x4_s2",
    "s8_256x128x128_w4x2_s3",
)


def _loop_row(measured: dict[str, str], config: Config) -> Row:
    kind = ("" if measured["sparse"] == "1" else "dense ") + measured["type"]
    tile = f"{measured['bm']}x{measured['bn']}x{measured['bk']}, {measured['warps']} warps"
    keys = (
        ("kernel", MODES[int(measured["mode"])]),
        ("type", kind),
        ("tile", tile),
        ("stages", int(measured["stages"])),
    )
    return Row(
        measured["variant"],
        keys,
        float(measured["cycles_per_iteration"]),
        iteration(_loops()[measured["variant"]], config),
    )


def loop_rows(config: Config, short: bool) -> list[Row]:
    """Each kernel three times: whole, without copies, and without copies and barriers."""
    rows = [
        row for row in _table("h100_gemm_one_sm.csv") if row["mode"] != "3" and (not short or row["variant"] in _SHORT)
    ]
    return [_loop_row(row, config) for row in rows]


# Global memory alone


def copy_trace(row: int, warps: int, count: int, groups: int, rounds: int) -> str:
    """Rounds of `count` cp.async of 16 bytes in each warp, with rows of `row` bytes and `groups` groups in flight."""
    step = 32 * 16 // row * _PITCH
    lines = [
        ".trace 1",
        ".target sm_90a",
        f".warps {warps}",
        ".shared 131072",
        f".global {(warps * count + 1) * step + _PITCH}",
        f".warp 0-{warps - 1} {{",
    ]
    lines += ["mov.u32 %r0, %laneid; mov.u32 %r1, %warpid; shl.b32 %r4, %r0, 4;", *_rows(0, 16, row // 16, 0, 2, 3)]
    lines += [
        (
            f"mul.wide.u32 %rd1, %r1, {count * step}; add.u64 %rd0, %rd0, "
            f"%rd1; mad.lo.u32 %r4, %r1, {512 * count * groups}, %r4;"
        ),
        f".repeat {rounds} {{",
    ]
    for group in range(groups):
        lines += [
            f"cp.async.cg.shared.global [%r4+{512 * (group * count + n)}], [%rd0+{n * step}], 16;" for n in range(count)
        ]
        lines += [
            "cp.async.commit_group;",
            f"cp.async.wait_group {groups - 1};",
            "add.u64 %rd0, %rd0, 0; add.u64 %rd0, %rd0, 0;",
        ]
    return "\n".join([*lines, "}", "}"])


def bulk_trace(size: int, rounds: int) -> str:
    """One thread that waits for each bulk copy before it starts the next."""
    return f""".trace 1
.target sm_90a
.warps 1
.shared 66048
.global 65536
.warp 0 {{
    mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 512; mov.u64 %rd0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
    .repeat {rounds} {{
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {size};
        @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], {size}, [%r1];
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r3;
        xor.b32 %r3, %r3, 1;
    }}
}}"""


LOADS = """.trace 1
.target sm_90a
.warps 1
.shared 0
.global 4096
.warp 0 {{
    .repeat {rounds} {{
        {loads}
    }}
}}"""
_CHAIN = 8
_LOAD = "ld.global.cg.b32 %r0, [%rd1]; cvt.u64.u32 %rd0, %r0; add.u64 %rd1, %rd0, 0;"


def _round(text: str, config: Config, counts: tuple[int, int]) -> float:
    """Cycles of a run of the loop of a trace: the difference between two numbers of runs."""
    few, many = _cycles(text, counts, config)
    return (many - few) / (counts[1] - counts[0])


def memory_rows(config: Config, short: bool) -> list[Row]:
    """The latency of loads; copies by rows, warps and groups in flight; bulk copies; the copies of the main loops
    alone."""
    rows = [_memory_row(line, config) for line in _table("h100_memory.csv")[:: 6 if short else 1]]
    copies = [
        row
        for row in _table("h100_gemm_one_sm.csv")
        if row["mode"] == "3" and (not short or row["variant"].startswith("f16_128x128"))
    ]
    return rows + [_loop_row(row, config) for row in copies]


def _memory_row(line: dict[str, str], config: Config) -> Row:
    what, measured = line["what"], float(line["cycles"])
    size, warps, count, groups = (int(line[key]) for key in ("bytes", "warps", "count", "groups"))
    keys = (("kernel", what), ("bytes", size), ("warps", warps), ("count", count), ("groups", groups))
    if what == "load":
        simulated = _round(LOADS.format(rounds=4, loads=_LOAD * _CHAIN), config, (4, 12)) / _CHAIN
    elif what == "bulk copy":
        simulated = _round(bulk_trace(size, 16), config, (16, 48))
    else:
        simulated = _round(copy_trace(size, warps, count, groups, 16), config, (16, 48)) / groups
    return Row(f"{what}, {size} bytes, {warps} warps, {count} in a group, {groups} groups", keys, measured, simulated)


# Whole problems


def chip_rows(config: Config, short: bool) -> list[Row]:
    """GEMMs of 4096 x 4096 x 4096 with four stages: cycles of the kernel, from the begin of the first CTA to the end of
    the last."""
    chosen = ("f16_256x128x64_w4x2_s4", "s8_128x128x256_w2x4_s4")
    lines = (line for line in _four_stages() if _size(line) == (4096, 4096, 4096))
    return [_kernel(config, line) for line in lines if not short or line["variant"] in chosen]


def size_rows(config: Config, short: bool) -> list[Row]:
    """The same kernels on all other sizes that were measured."""
    lines = [line for line in _four_stages() if _size(line) != (4096, 4096, 4096)]
    return [_kernel(config, line) for line in (lines[::17] if short else lines)]


def stage_rows(config: Config, short: bool) -> list[Row]:
    """Kernels with two and three stages, which wait for their copies, on all sizes."""
    lines = [line for line in _table("h100_gemm_chip.csv") if line["stages"] != "4"]
    return [_kernel(config, line) for line in (lines[::49] if short else lines)]


def _four_stages() -> list[dict[str, str]]:
    return [line for line in _table("h100_gemm_chip.csv") if line["stages"] == "4"]


def _size(line: dict[str, str]) -> tuple[int, int, int]:
    return int(line["m"]), int(line["n"]), int(line["k"])


def _kernel(config: Config, line: dict[str, str]) -> Row:
    """One kernel on the whole chip."""
    along_m, along_n = (int(part) for part in line["variant"].split("_w")[1].split("_")[0].split("x"))
    sizes = (int(line["bm"]), int(line["bn"]), int(line["bk"]))
    tile = Tile(line["type"], *sizes, along_m, along_n, int(line["stages"]), line["sparse"] == "1")
    m, n, k = _size(line)
    kind = ("" if tile.sparse else "dense ") + tile.type
    tile_named = f"{tile.bm}x{tile.bn}x{tile.bk}, {tile.warps} warps"
    named = (("type", kind), ("tile", tile_named), ("stages", tile.stages), ("size", f"{m}x{n}x{k}"))
    measured = float(line["first_to_last_us"]) * float(line["mhz"])
    return Row(line["variant"], named, measured, kernel_cycles(tile, m, n, k, config))


GROUPS = {
    "h100_sxm": (
        Group(
            "gemm",
            "main loop of GEMM kernels on one SM, cycles of an iteration",
            SOURCE,
            loop_rows,
            ("kernel", "type", "tile", "stages"),
            seconds=10,
        ),
        Group(
            "memory",
            "loads and copies from L2 on one SM, cycles of a round",
            SOURCE,
            memory_rows,
            ("kernel",),
            seconds=6,
        ),
        Group(
            "chip",
            "4096 x 4096 x 4096 on the whole chip, cycles of the kernel",
            SOURCE,
            chip_rows,
            ("type",),
            seconds=8.5,
        ),
        Group(
            "sizes",
            "the same kernels on other sizes (held out), cycles of the kernel",
            SOURCE,
            size_rows,
            ("size", "type"),
            seconds=12,
        ),
        Group(
            "stages",
            "kernels with two and three stages (two thirds not fitted to), cycles of the kernel",
            SOURCE,
            stage_rows,
            ("stages", "type", "size"),
            seconds=35,
        ),
    )
}
