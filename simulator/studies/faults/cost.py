"""What fault detectors cost where they take instructions: the kernel of a GEMM tile is run on the timing model with and
without them.

    legality   five integer instructions for each metadata register that is loaded: the indices of every code differ
    ordered    eleven: they ascend
    abft       row checksums: one more column of B for each tile (a sparse product for each row tile, shared out among
               the warps along N); column checksums: one more row of A, which is dense (two dense products for each
               sparse one, shared out among the warps along M)
    abft rows   row checksums alone: enough for faults in stored weights and metadata, which change a row of D
    checksum    one for each metadata register that is loaded: they are added up modulo 2
    range       two for each register of the result behind the loop: the largest magnitude of a lane, NaN and infinity
                included
    duplicate   every product twice, into accumulators of its own, and two instructions for each register of the result
    parity, secded   none: they are checked in hardware, beside the register file

Bits are combined over all codes of a register at once; the result is gathered in one register and tested after the
loop. Time and energy are those of the kernel: the sources of the checksums (a row of sums of A, a column of sums of B,
the sum of metadata registers) are assumed to come with the operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isa import IsaError
from simulator.chip.config import Config, load_config
from simulator.simulation.run import run
from simulator.studies.gemm.layout import Layout
from simulator.studies.gemm.tile import REGISTERS, Tile, instruction
from simulator.studies.gemm.trace import KernelWriter, kernel_trace
from simulator.tables import aligned

K = 1024  # of the GEMM: enough iterations for the loop to weigh


@dataclass(frozen=True)
class Cost:
    """What one detector costs.

    Attributes:
        name: of the detector.
        cycles: of the kernel with it.
        added: statements that were added.
        overhead: cycles, as a share of those of the kernel without detectors.
        energy_nj: energy of the kernel with it, in nanojoules; None for a config without [energy].
        energy_overhead: energy, as a share of that of the kernel without detectors; None as that.
    """

    name: str
    cycles: int
    added: int
    overhead: float
    energy_nj: float | None = None
    energy_overhead: float | None = None


class _Detecting(KernelWriter):
    """A kernel with a detector, in registers of its own."""

    def __init__(self, tile: Tile, where: Layout, cta: int, ctas: int) -> None:
        super().__init__(tile, where, cta, ctas)
        plain = KernelWriter(tile, where, cta, ctas)
        for _ in plain.program(2 * tile.stages):
            pass  # which registers it takes is known when it is written
        self.spare = plain.take.used
        self.accumulators = tile.tiles_m * tile.tiles_n * self.words_d


class _Checking(_Detecting):
    """A kernel that checks every metadata register before the first product that uses it."""

    result = 0  # which spare register gathers the result

    def check(self, e: str) -> Iterator[str]:
        """The instructions that check a register."""
        raise NotImplementedError

    def program(self, iterations: int) -> Iterator[str]:
        yield f"    mov.b32 %r{self.spare + self.result}, 0xffffffff;"
        yield from super().program(iterations)

    def products(self, slot: int, step: int) -> Iterator[str]:
        t = self.tile
        word, again = divmod(step, t.selectors)
        for number, product in enumerate(super().products(slot, step)):
            if again or number >= t.tiles_m:  # the first products of a step use each register once
                yield product
                continue
            e = f"%r{self.metadata_of(slot) + word * t.tiles_m + number}"
            yield "\n".join([*(f"    {line}" for line in self.check(e)), product])


class _Legality(_Checking):
    """A kernel that checks whether the indices of every code differ."""

    result = 1

    def check(self, e: str) -> Iterator[str]:
        t, acc, u = (f"%r{self.spare + i}" for i in range(3))
        yield f"shr.u32 {t}, {e}, 2; xor.b32 {t}, {t}, {e};"  # bits 1..0 of each code: where the indices differ
        yield f"shr.u32 {u}, {t}, 1; or.b32 {t}, {t}, {u}; and.b32 {acc}, {acc}, {t};"


class _Ordered(_Checking):
    """A kernel that checks whether the indices of every code ascend."""

    def check(self, e: str) -> Iterator[str]:
        acc, high, low, h0, x = (f"%r{self.spare + i}" for i in range(5))
        yield f"shr.u32 {high}, {e}, 3; shr.u32 {low}, {e}, 1; shr.u32 {h0}, {e}, 2;"
        yield f"xor.b32 {x}, {high}, {low}; and.b32 {high}, {high}, {x};"  # upper bits: second index above the first
        yield f"xor.b32 {low}, {h0}, {e}; and.b32 {low}, {low}, {h0}; not.b32 {x}, {x};"
        yield f"and.b32 {low}, {low}, {x}; or.b32 {high}, {high}, {low}; and.b32 {acc}, {acc}, {high};"


class _Checksum(_Checking):
    """A kernel that adds up its metadata registers modulo 2."""

    def check(self, e: str) -> Iterator[str]:
        acc = f"%r{self.spare}"
        yield f"xor.b32 {acc}, {acc}, {e};"


class _Range(_Detecting):
    """A kernel that finds the largest magnitude of its results, as an integer: NaN is above infinity, and that above
    all numbers."""

    def epilogue(self) -> Iterator[str]:
        most, part = f"%r{self.spare}", f"%r{self.spare + 1}"
        integer = self.tile.accumulator == "s32"
        yield f"    mov.b32 {most}, 0;"
        for word in range(self.accumulators):
            of = f"%r{self.acc + word}"
            yield f"    abs.s32 {part}, {of};" if integer else f"    and.b32 {part}, {of}, 0x7fffffff;"
            yield f"    max.u32 {most}, {most}, {part};"
        yield from super().epilogue()


class _Duplicate(_Detecting):
    """A kernel that makes each product twice, and compares the results."""

    def __init__(self, tile: Tile, where: Layout, cta: int, ctas: int) -> None:
        super().__init__(tile, where, cta, ctas)
        if self.spare + self.accumulators + 2 > REGISTERS:
            reason = "no registers are left for a second set of accumulators"
            raise IsaError(str(tile), -1, reason, "a smaller tile or more warps")

    def products(self, slot: int, step: int) -> Iterator[str]:
        first = {f"%r{self.acc + word}": f"%r{self.spare + word}" for word in range(self.accumulators)}
        for product in super().products(slot, step):
            *before, last = product.splitlines()
            again = re.sub(r"%r\d+", lambda found: first.get(found[0], found[0]), last)
            yield "\n".join([*before, last, again])

    def epilogue(self) -> Iterator[str]:
        differ, part = (f"%r{self.spare + self.accumulators + i}" for i in range(2))
        yield f"    mov.b32 {differ}, 0;"
        for word in range(self.accumulators):
            yield f"    xor.b32 {part}, %r{self.acc + word}, %r{self.spare + word}; or.b32 {differ}, {differ}, {part};"
        yield from super().epilogue()


class _Abft(_Detecting):
    """A kernel with checksum products behind the last product of each step."""

    both = True  # row and column checksums; otherwise row checksums alone

    def __init__(self, tile: Tile, where: Layout, cta: int, ctas: int) -> None:
        super().__init__(tile, where, cta, ctas)
        self.rows, self.columns = -(-tile.tiles_m // tile.warps_n), 2 * -(-tile.tiles_n // tile.warps_m) * self.both
        if self.spare + self.words_d * (self.rows + self.columns // 2) > REGISTERS:
            reason = "no registers are left for the accumulators of checksums"
            raise IsaError(str(tile), -1, reason, "a smaller tile or more warps")

    def products(self, slot: int, step: int) -> Iterator[str]:
        *products, last = super().products(slot, step)
        dense, words = instruction(self.tile.type, self.tile.accumulator, sparse=False), self.words_d
        yield from products
        opcode, operands = last.strip().split(" ", 1)
        _, a, b, _, e = (part.strip(", ") for part in operands.replace("}", "{").split("{") if part.strip(", "))
        pairs, lines = ", ".join(b.split(", ")[:2]), [last]
        for i in range(self.rows):
            d = _registers(self.spare + words * i, words)
            lines.append(f"    {opcode} {d}, {{{a}}}, {{{b}}}, {d}, {e}")
        for i in range(self.columns):
            d = _registers(self.spare + words * (self.rows + i // 2), words)
            lines.append(f"    {dense.opcode} {d}, {{{a}}}, {{{pairs}}}, {d};")
        yield "\n".join(lines)


class _AbftRows(_Abft):
    """A kernel with row checksums, which see what one output of a layer is wrong in; the columns' are left out."""

    both = False


def _registers(first: int, count: int) -> str:
    """Registers from `first` on, as an operand of PTX."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


DETECTORS = {
    "none": KernelWriter, "legality": _Legality, "ordered": _Ordered, "checksum": _Checksum, "abft": _Abft,
    "abft rows": _AbftRows, "range": _Range, "duplicate": _Duplicate,
}  # fmt: skip


def costs(
    tile: Tile, config: str | Config = "h100_sxm", k: int = K, detectors: Sequence[str] = tuple(DETECTORS)
) -> list[Cost]:
    """The cost of the kernel without detectors, and with each of them; `detectors` are keys of `DETECTORS`, "none"
    first.

    Raises:
        IsaError: a dense tile, or one that leaves no registers for checksums.
        ConfigError: no such config.
    """
    if not tile.sparse:
        raise IsaError(str(tile), -1, "a dense tile has no metadata to check", "a sparse tile")
    results: list[Cost] = []
    target = load_config(config).target
    plain = kernel_trace(tile, k, target=target).count(";")
    for name in detectors:
        text = kernel_trace(tile, k, target=target, writer=DETECTORS[name])
        report = run(text, config, arithmetic="none")
        base = results[0] if results else None
        energy, cycles = report.energy_nj, report.cycles
        more = None if energy is None else energy / (base.energy_nj if base and base.energy_nj else energy) - 1
        overhead = cycles / (base.cycles if base else cycles) - 1
        results.append(Cost(name, cycles, text.count(";") - plain, overhead, energy, more))
    return results


def _energy(one: Cost) -> tuple[str, str]:
    """The energy of a kernel, and what a detector adds to it, in words."""
    if one.energy_nj is None or one.energy_overhead is None:
        return "-", "-"
    return f"{one.energy_nj:,.0f}", f"{one.energy_overhead:.1%}"


def as_text(found: list[Cost], tile: Tile, config: str | Config) -> str:
    """The costs as a table of text."""
    cells = [[one.name, f"{one.cycles:,}", f"{one.overhead:.1%}", *_energy(one), f"{one.added:,}"] for one in found]
    rows = [["detector", "cycles", "overhead", "energy_nj", "overhead", "statements added"], *cells]
    table = aligned(rows, "<>", widths=(10, 9, 9, 10, 9, 17), gap=" ")
    head = f"{tile}, K = {K}, on {load_config(config).label}: one CTA"
    return "\n".join([head, "", *table, "parity     and secded take no instructions", ""])
