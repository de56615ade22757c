"""What detectors cost where they take instructions: the kernel of a GEMM tile with them, on the timing model.

    legality   five integer instructions for each metadata register that is loaded: the indices of every code differ
    ordered    eleven: they ascend
    abft       row checksums: one more column of B for each tile (a sparse product for each row tile, shared out among
    the warps along N); column
               checksums: one more row of A, which is dense (two dense products for each sparse one, shared out among
                   the warps along M)
    parity, secded   none: they are checked in hardware, beside the register file

Bits are combined over all codes of a register at once; the result is gathered in one register and tested after the
loop. Counted is time alone: what the checksums are made of (a row of sums of A, a column of sums of B) is assumed to
come with the operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from isa import IsaError
from simulator.simulation.run import run
from simulator.studies.gemm.tile import REGISTERS, Tile
from simulator.studies.gemm.trace import kernel_trace

_LOAD = re.compile(r"ld\.shared(?:\.v\d)?\.b32 \{?((?:%r\d+(?:, )?)+)\}?, \[")
_PRODUCT = re.compile(r"mma\.sp\S* (\{[^}]*\}), (\{[^}]*\}), (\{[^}]*\}), (\{[^}]*\}), (%r\d+), (\S+);")
DENSE = {
    "f16": "m16n8k16.row.col.f32.f16.f16.f32",
    "bf16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "s8": "m16n8k32.row.col.s32.s8.s8.s32",
}
K = 1024  # of the GEMM: enough iterations for the loop to weigh


@dataclass(frozen=True)
class Cost:
    """One detector: cycles of the kernel, and instructions that were added."""

    name: str
    cycles: int
    added: int
    overhead: float


def costs(tile: Tile, config: str = "h100_sxm", k: int = K) -> list[Cost]:
    """The kernel without detectors, and with each.

    Raises:
        IsaError: a dense tile, or one that leaves no registers for checksums.
        ConfigError: no such config.
    """
    if not tile.sparse:
        raise IsaError(str(tile), -1, "a dense tile has no metadata to check", "a sparse tile")
    plain = kernel_trace(tile, k)
    found: list[Cost] = []
    for name, change in (
        ("none", lambda text, tile: text),
        ("legality", _legality),
        ("ordered", _ordered),
        ("abft", _abft),
    ):
        text = change(plain, tile)
        cycles = run(text, config, arithmetic="none").cycles
        base = found[0].cycles if found else cycles
        found.append(Cost(name, cycles, text.count(";") - plain.count(";"), cycles / base - 1))
    return found


def _free(text: str) -> int:
    """The first register that no instruction names."""
    return 1 + max(int(number) for number in re.findall(r"%r(\d+)", text))


def _legality(text: str, tile: Tile) -> str:
    t, acc = (_free(text) + i for i in range(2))

    def check(e: str) -> Iterator[str]:
        yield f"shr.u32 %r{t}, {e}, 2; xor.b32 %r{t}, %r{t}, {e};"  # bits 1..0 of each code: where the indices differ
        yield f"shr.u32 %r{t + 2}, %r{t}, 1; or.b32 %r{t}, %r{t}, %r{t + 2}; and.b32 %r{acc}, %r{acc}, %r{t};"

    return _checked(text, check, acc)


def _ordered(text: str, tile: Tile) -> str:
    first = _free(text)
    acc, high, low, h0, x = (first + i for i in range(5))

    def check(e: str) -> Iterator[str]:
        yield f"shr.u32 %r{high}, {e}, 3; shr.u32 %r{low}, {e}, 1; shr.u32 %r{h0}, {e}, 2;"
        yield f"xor.b32 %r{x}, %r{high}, %r{low}; and.b32 %r{high}, %r{high}, %r{x};"  # upper bits: second index above the first
        yield f"xor.b32 %r{low}, %r{h0}, {e}; and.b32 %r{low}, %r{low}, %r{h0}; not.b32 %r{x}, %r{x};"
        yield f"and.b32 %r{low}, %r{low}, %r{x}; or.b32 %r{high}, %r{high}, %r{low}; and.b32 %r{acc}, %r{acc}, %r{high};"

    return _checked(text, check, acc)


def _checked(text: str, check: Callable[[str], Iterator[str]], acc: int) -> str:
    """The check before the first product that uses a metadata register, once for each time it is loaded."""
    lines: list[str] = []
    waiting: set[str] = set()
    for line in text.splitlines():
        load = _LOAD.search(line)
        if load and "ldmatrix" not in line:
            waiting |= set(load[1].split(", "))
        product = _PRODUCT.search(line)
        if product and product[5] in waiting:
            waiting.discard(product[5])
            lines += [f"    {part}" for part in check(product[5])]
        lines.append(line)
    start = next(i for i, line in enumerate(lines) if line.startswith(".warp "))
    lines.insert(start + 1, f"    mov.b32 %r{acc}, 0xffffffff;")
    return "\n".join(lines) + "\n"


def _abft(text: str, tile: Tile) -> str:
    """Checksum products behind the last product of each step."""
    rows, columns = -(-tile.tiles_m // tile.warps_n), 2 * -(-tile.tiles_n // tile.warps_m)
    first = _free(text)
    if first + 4 * (rows + columns // 2) > REGISTERS:
        raise IsaError(
            str(tile), -1, "no registers are left for the accumulators of checksums", "a smaller tile or more warps"
        )
    step = tile.tiles_m * tile.tiles_n
    lines: list[str] = []
    count = 0
    for line in text.splitlines():
        lines.append(line)
        product = _PRODUCT.search(line)
        if not product:
            continue
        count += 1
        if count % step == 0:
            opcode = line.split()[0]
            for i in range(rows):
                d = _registers(first + 4 * i)
                lines.append(f"    {opcode} {d}, {product[2]}, {product[3]}, {d}, {product[5]}, {product[6]};")
            for i in range(columns):
                d, (b0, b1, *_) = _registers(first + 4 * (rows + i // 2)), product[3].strip("{}").split(", ")
                lines.append(f"    mma.sync.aligned.{DENSE[tile.type]} {d}, {product[2]}, {{{b0}, {b1}}}, {d};")
    return "\n".join(lines) + "\n"


def _registers(first: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(4)) + "}"


def as_text(found: list[Cost], tile: Tile, config: str) -> str:
    """A table."""
    lines = [
        f"{tile}, K = {K}, on {config}: one CTA",
        "",
        f"{'detector':<10} {'cycles':>9} {'overhead':>9} {'statements added':>17}",
    ]
    lines += [f"{one.name:<10} {one.cycles:>9,} {one.overhead:>9.1%} {one.added:>17,}" for one in found]
    return "\n".join([*lines, "parity     and secded take no instructions", ""])
