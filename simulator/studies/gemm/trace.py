"""Writes the kernel of a GEMM tile as a trace: prologue, main loop and epilogue. The loads of the program run one step
ahead of its products."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from isa import Target
from simulator.studies.gemm.layout import Layout, layout
from simulator.studies.gemm.scales import POINTER, Scales
from simulator.studies.gemm.tile import REGISTERS, Tile, check_sizes

_ADDRESSES = 12  # registers beside fragments and the addresses of each step
_PACE = 2  # copies, or early loads, behind each product
_FIRST_WIDE = {"a": 0, "b": 1, "e": 2, "d": 3, "s": POINTER}


@dataclass
class _Registers:
    """Names of 32-bit registers, given out once."""

    used: int = 0
    names: dict[str, int] = field(default_factory=dict)

    def __call__(self, name: str, count: int = 1) -> int:
        """The first of `count` registers of this name."""
        if name not in self.names:
            self.names[name] = self.used
            self.used += count
        return self.names[name]


def kernel_trace(
    tile: Tile,
    k: int,
    *,
    ctas: int = 1,
    rounds: int = 1,
    stagger: int = 0,
    target: str | Target = "sm_90a",
    loads: str = "",
    writer: type[KernelWriter] | None = None,
) -> str:
    """The trace of `ctas` CTAs that share an SM, each computing the same tile for a problem of K = k.

    Args:
        rounds: how many CTAs follow each other in the place of each.
        stagger: by how many turns of an empty loop each place begins later than the one before.
        loads: `.load` statements, if the values matter; without them all operands are zero.
        target: the chip that the trace is for.
        writer: the class that writes the program of a CTA, in place of `KernelWriter`.

    Raises:
        IsaError: K below 1, or a target without the tile's matrix instruction.
    """
    check_sizes(k=k)
    tile.check_target(target)
    writer = writer or KernelWriter
    iterations = -(-k // tile.bk)
    where = layout(tile, iterations * tile.bk)
    parts = [
        f"// {tile}: D = A * B^T of {tile.bm} x {tile.bn}, K = {k}; {ctas} CTA{'s' if ctas > 1 else ''}",
        ".trace 1",
        f".target {target}",
        f".warps {ctas * tile.warps}",
        f".shared {ctas * tile.shared_bytes}",
        f".global {where.size}",
        *([loads] if loads else []),
    ]
    for cta in range(ctas):
        one = writer(tile, where, cta, ctas)
        first = cta * tile.warps
        parts += [f".warp {first}-{first + tile.warps - 1} {{", *one.rounds(iterations, rounds, cta * stagger), "}"]
    parts.append(f'.store "d", global[{where.d}], {tile.bm * where.pitch_d};')
    return "\n".join(parts) + "\n"


class KernelWriter:
    """Writes the program of one CTA; a subclass may add to it."""

    def __init__(self, tile: Tile, where: Layout, cta: int, ctas: int) -> None:
        self.tile, self.where, self.cta = tile, where, cta
        self.base = cta * tile.shared_bytes
        self.barrier = f"bar.sync {cta}, {tile.threads};" if ctas > 1 else "bar.sync 0;"
        self.take = _Registers()
        t = tile
        self.words_b, self.words_d = t.words_b, t.words_d
        self.acc = self.take("accumulators", t.tiles_m * t.tiles_n * self.words_d)
        self.a, self.b = self.take("a", t.tiles_m * 4), self.take("b", t.tiles_n * self.words_b)
        self.scales = Scales(tile, self.base, self.take) if t.factors else None
        words_e = t.metadata * t.tiles_m
        self.e = [self.take("e", words_e)]
        room = REGISTERS - (self.take.used + t.tiles_m * 4 + t.tiles_n * self.words_b + _ADDRESSES + 2 * t.steps)
        self.ahead = room >= 0  # for the fragments of the next step, too
        self.early = t.registers < REGISTERS  # ptxas loads as soon as it can, unless it must save registers
        if t.sparse and room >= words_e:
            self.e.append(self.take("next e", words_e))
        self.sets = [(self.a, self.b)]
        if self.ahead:
            self.sets.append((self.take("next a", t.tiles_m * 4), self.take("next b", t.tiles_n * self.words_b)))

    def rounds(self, iterations: int, rounds: int, turns: int) -> Iterator[str]:
        """The program of `rounds` CTAs that follow each other, after so many turns of an empty loop."""
        if turns:
            counter = self.take("x")
            yield f"    .repeat {turns} {{ add.s32 %r{counter}, %r{counter}, 1; }}"
        if rounds == 1:
            yield from self.program(iterations)
            return
        yield f"    .repeat {rounds} {{"
        yield from self.program(iterations)
        yield f"    {self.barrier}"
        yield "    }"

    def program(self, iterations: int) -> Iterator[str]:
        """Setup, prologue, loop, epilogue."""
        stages = self.tile.stages
        yield from self.setup()
        for stage in range(stages - 1):
            yield from self.copy(stage, stage)
        yield from self.advance(stages - 1)
        rounds, rest = divmod(iterations, stages)
        if rounds:
            yield f"    .repeat {rounds} {{"
            yield from self.iterations(range(stages))
            yield from self.advance(stages)
            yield "    }"
        yield from self.iterations(range(rest))
        yield "    cp.async.wait_all;"
        yield from self.epilogue()

    def setup(self) -> Iterator[str]:
        """The addresses of what this thread copies, and of what its lanes load."""
        t, r, cta_threads = self.tile, self.take, self.cta * self.tile.threads
        thread, lane, warp, x, y = r("thread"), r("lane"), r("warp"), r("x"), r("y")
        yield f"    mov.u32 %r{thread}, %tid.x; mov.u32 %r{lane}, %laneid;"
        if cta_threads:
            yield f"    sub.u32 %r{thread}, %r{thread}, {cta_threads};"
        yield f"    shr.u32 %r{warp}, %r{thread}, 5;"
        registers = [f"mov.b32 %r{self.acc + i}, 0;" for i in range(t.tiles_m * t.tiles_n * self.words_d)]
        yield from ("    " + " ".join(registers[i : i + 8]) for i in range(0, len(registers), 8))
        for name, row, pitch, begin in (
            ("a", t.row_a, self.where.pitch_a, 0),
            ("b", t.row_b, self.where.pitch_b, self.where.b),
        ):
            columns, shared = row // 16, self.base + (t.bm * t.row_a if name == "b" else 0)
            to = r(f"to {name}")
            yield f"    // {name.upper()}: thread -> row thread / {columns}, 16-byte column thread % {columns}"
            shift = columns.bit_length() - 1
            yield f"    shr.u32 %r{x}, %r{thread}, {shift}; and.b32 %r{y}, %r{thread}, {columns - 1};"
            yield (
                f"    mul.wide.u32 %rd{_FIRST_WIDE[name]}, %r{x}, {pitch}; "
                f"shl.b32 %r{to}, %r{y}, 4; cvt.u64.u32 %rd4, %r{to};"
            )
            wide = f"%rd{_FIRST_WIDE[name]}"
            yield f"    add.u64 {wide}, {wide}, %rd4; add.u64 {wide}, {wide}, {begin};"
            yield from self.turned(row, x, y, to)
            yield f"    mad.lo.u32 %r{to}, %r{x}, {row}, %r{to}; add.u32 %r{to}, %r{to}, {shared};"
        yield "    // ldmatrix: lane -> row of A (lane % 16), of B; column, turned"
        yield f"    and.b32 %r{warp}, %r{warp}, 31; and.b32 %r{x}, %r{lane}, 15; shr.u32 %r{y}, %r{lane}, 4;"
        yield from self.fragments("a", f"%r{warp}", t.warps_m, t.tiles_m * 16, t.row_a, self.base)
        if t.sparse:
            yield f"    and.b32 %r{x}, %r{lane}, 7; shr.u32 %r{y}, %r{lane}, 3;"
        else:
            z = r("z")
            yield (
                f"    and.b32 %r{x}, %r{lane}, 7; shr.u32 %r{y}, %r{lane}, "
                f"4; shl.b32 %r{y}, %r{y}, 3; add.u32 %r{x}, %r{x}, %r{y};"
            )
            yield f"    shr.u32 %r{y}, %r{lane}, 3; and.b32 %r{y}, %r{y}, 1; mov.b32 %r{z}, %r{y};"
        yield from self.fragments("b", f"%r{warp}", -t.warps_m, t.tiles_n * 8, t.row_b, self.base + t.bm * t.row_a)
        if t.sparse:
            yield from self.metadata_addresses(thread, lane, warp)
        if self.scales is not None:
            yield from self.scales.addresses(thread, lane, warp, self.where.s)

    def turned(self, row: int, x: int, y: int, to: int) -> Iterator[str]:
        """Computes to = 16 * (column y, permuted by row x)."""
        z = self.take("z")
        if row == 64:
            yield (
                f"    shr.u32 %r{z}, %r{x}, 1; and.b32 %r{z}, %r{z}, 3; "
                f"xor.b32 %r{to}, %r{y}, %r{z}; shl.b32 %r{to}, %r{to}, 4;"
            )
        else:
            yield f"    and.b32 %r{z}, %r{x}, 7; xor.b32 %r{to}, %r{y}, %r{z}; shl.b32 %r{to}, %r{to}, 4;"

    def fragments(self, name: str, warp: str, warps: int, rows: int, row: int, shared: int) -> Iterator[str]:
        """The addresses of the fragments of each step: %x is the row in an m16 (n8) tile, %y the column."""
        r, x, y, z = self.take, self.take("x"), self.take("y"), self.take("z")
        address = r(f"at {name}", self.tile.steps)
        yield from self.turned(row, x, y, address)
        yield f"    mad.lo.u32 %r{address}, %r{x}, {row}, %r{address};"
        along_m = self.tile.warps_m  # warp = warp_m + warps_m * warp_n
        if warps > 0:
            yield from self.modulo(warp, along_m, z)
        else:
            yield from self.divided(warp, along_m, z)
        yield (
            f"    mad.lo.u32 %r{address}, %r{z}, {rows * row}, %r{address}; add.u32 %r{address}, %r{address}, {shared};"
        )
        for step in range(1, self.tile.steps):
            distance = step * (64 if name == "b" and self.tile.sparse else 32)
            yield f"    xor.b32 %r{address + step}, %r{address}, {distance};"

    @staticmethod
    def modulo(value: str, by: int, to: int) -> Iterator[str]:
        """Computes to = value % by, for a power of two."""
        if by & (by - 1):
            raise AssertionError(by)
        yield f"    and.b32 %r{to}, {value}, {by - 1};"

    @staticmethod
    def divided(value: str, by: int, to: int) -> Iterator[str]:
        """Computes to = value / by, for a power of two."""
        yield f"    shr.u32 %r{to}, {value}, {by.bit_length() - 1};"

    def metadata_addresses(self, thread: int, lane: int, warp: int) -> Iterator[str]:
        """The addresses of the metadata that a lane loads."""
        t, r, z = self.tile, self.take, self.take("z")
        shared = self.base + t.bm * t.row_a + t.bn * t.row_b
        to, address = r("to e"), r("at e")
        yield "    // metadata: the bytes in their order; lane -> its words of all m16 tiles"
        yield (
            f"    mul.lo.u32 %r{to}, %r{thread}, {t.size_e}; cvt.u64.u32 "
            f"%rd2, %r{to}; add.u64 %rd2, %rd2, {self.where.e};"
        )
        yield f"    add.u32 %r{to}, %r{to}, {shared};"
        yield from self.modulo(f"%r{warp}", t.warps_m, z)
        yield f"    shl.b32 %r{z}, %r{z}, 5; add.u32 %r{z}, %r{z}, %r{lane};"
        yield f"    mul.lo.u32 %r{address}, %r{z}, {4 * t.tiles_m}; add.u32 %r{address}, %r{address}, {shared};"

    def copy(self, slot: int, ahead: int) -> Iterator[str]:
        """Copies the tile that lies `ahead` iterations after the pointers to a slot in shared memory."""
        t, r = self.tile, self.take
        for name, count, row, pitch in (
            ("a", t.copies_a, t.row_a, self.where.pitch_a),
            ("b", t.copies_b, t.row_b, self.where.pitch_b),
        ):
            rows = t.threads * 16 // row
            for i in range(count):
                to, source = slot * t.stage_bytes + i * rows * row, ahead * row + i * rows * pitch
                yield (
                    f"    cp.async.cg.shared.global [%r{r(f'to {name}')}+{to}], [%rd{_FIRST_WIDE[name]}+{source}], 16;"
                )
        if t.sparse:
            kind = "cg" if t.size_e == 16 else "ca"
            to, source = slot * t.stage_bytes, ahead * t.bytes_e
            yield (
                f"    cp.async.{kind}.shared.global [%r{r('to e')}+{to}], [%rd{_FIRST_WIDE['e']}+{source}], {t.size_e};"
            )
        if self.scales is not None:
            yield from self.scales.copy(slot, ahead)
        yield "    cp.async.commit_group;"

    def advance(self, iterations: int) -> Iterator[str]:
        """Moves the pointers on by this many iterations."""
        t = self.tile
        for name, size in (("a", t.row_a), ("b", t.row_b), ("e", t.bytes_e), ("s", t.bytes_s)):
            if not size:
                continue
            yield f"    add.u64 %rd{_FIRST_WIDE[name]}, %rd{_FIRST_WIDE[name]}, {iterations * size};"

    def iterations(self, slots: range) -> Iterator[str]:
        """Several iterations in a row. The products of a tile's last step follow the barrier of the next tile, as ptxas
        places them within a loop's body."""
        pending: list[str] = []
        for slot in slots:
            pending = yield from self.iteration(slot, pending)
        yield from pending

    def iteration(self, slot: int, pending: list[str]) -> Generator[str, None, list[str]]:
        """Waits for its tile, sends for a later one, and multiplies; returns the products of its last step, which are
        still to come."""
        t = self.tile
        yield f"    // tile in place {slot}"
        yield f"    cp.async.wait_group {t.stages - 2};"
        yield f"    {self.barrier}"
        metadata = list(self.load_metadata(slot)) if t.sparse else []
        late = [] if len(self.e) > 1 or not pending else metadata  # read until the last pending product
        yield from _tail(
            pending,
            list(self.copy((slot + t.stages - 1) % t.stages, slot)),
            [*([] if late else metadata), *self.load(slot, 0)],
            early=self.early,
        )
        yield from late
        for step in range(t.steps):
            products = list(self.products(slot, step))
            if step + 1 == t.steps:
                if self.ahead:
                    return products
                yield from products
                return []
            loads = list(self.load(slot, step + 1))
            yield from _mixed(products, loads, early=self.early) if self.ahead else (*products, *loads)
        raise AssertionError(t.steps)

    def load_metadata(self, slot: int) -> Iterator[str]:
        """Loads the metadata of the tile in a slot."""
        t, address = self.tile, self.take("at e")
        for word in range(t.metadata):
            names = ", ".join(f"%r{self.metadata_of(slot) + word * t.tiles_m + i}" for i in range(t.tiles_m))
            vector = f".v{t.tiles_m}" if t.tiles_m > 1 else ""
            target = f"{{{names}}}" if t.tiles_m > 1 else names
            yield f"    ld.shared{vector}.b32 {target}, [%r{address}+{slot * t.stage_bytes + word * t.bm * 8}];"

    def load(self, slot: int, step: int) -> Iterator[str]:
        """Loads the fragments of one step of the tile in a slot."""
        t = self.tile
        a, b = self.sets[step % len(self.sets)]
        if self.scales is not None:
            yield from self.scales.load(slot, step)
        for m in range(t.tiles_m):
            address = f"[%r{self.take('at a', t.steps) + step}+{slot * t.stage_bytes + m * 16 * t.row_a}]"
            yield f"    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {_list(a + 4 * m, 4)}, {address};"
        for n in range(0, t.tiles_n, 4 // self.words_b):
            yield (
                f"    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {_list(b + self.words_b * n, 4)}, "
                f"[%r{self.take('at b', t.steps) + step}+{slot * t.stage_bytes + n * 8 * t.row_b}];"
            )

    def metadata_of(self, slot: int) -> int:
        """The names of the metadata registers of a tile: two sets in turn, where loads run ahead."""
        return self.e[slot % len(self.e)]

    def products(self, slot: int, step: int) -> Iterator[str]:
        """The matrix instructions of one step."""
        t = self.tile
        a, b = self.sets[step % len(self.sets)]
        word, selector = divmod(step, t.selectors) if t.sparse else (0, 0)
        for m in range(t.tiles_m):
            for n in range(t.tiles_n):
                c = _list(self.acc + self.words_d * (m * t.tiles_n + n), self.words_d)
                tail = f", %r{self.metadata_of(slot) + word * t.tiles_m + m}, {selector:#x}" if t.sparse else ""
                scales = f", {self.scales.operands(slot, step, m, n)}" if self.scales is not None else ""
                yield (
                    f"    {t.form.opcode} {c}, {_list(a + 4 * m, 4)}, "
                    f"{_list(b + self.words_b * n, self.words_b)}, {c}{tail}{scales};"
                )

    def epilogue(self) -> Iterator[str]:
        """Stores the fragments of D row by row: PTX ISA 9.0, 9.7.14.5.8 (lane -> row lane / 4, columns 2 * (lane % 4)
        and the next)."""
        t, x, y, z = self.tile, self.take("x"), self.take("y"), self.take("z")
        warp, lane, pitch, pair = self.take("warp"), self.take("lane"), self.where.pitch_d, 2 * self.tile.bytes_d
        shift = pair.bit_length() - 1
        yield f"    shr.u32 %r{x}, %r{lane}, 2; and.b32 %r{y}, %r{lane}, 3; shl.b32 %r{y}, %r{y}, {shift};"
        yield f"    and.b32 %r{z}, %r{warp}, {t.warps_m - 1}; mad.lo.u32 %r{x}, %r{z}, {t.tiles_m * 16}, %r{x};"
        yield (
            f"    shr.u32 %r{z}, %r{warp}, {t.warps_m.bit_length() - 1}; "
            f"mad.lo.u32 %r{y}, %r{z}, {t.tiles_n * 4 * pair}, %r{y};"
        )
        yield (
            f"    mad.lo.u32 %r{x}, %r{x}, {pitch}, %r{y}; cvt.u64.u32 %rd3, %r{x}; add.u64 %rd3, %rd3, {self.where.d};"
        )
        words = self.words_d // 2  # registers of two neighbours in a row
        for m in range(t.tiles_m):
            for n in range(t.tiles_n):
                c = self.acc + self.words_d * (m * t.tiles_n + n)
                for half in (0, 1):
                    to = f"[%rd3+{(m * 16 + half * 8) * pitch + n * 4 * pair}]"
                    what = _list(c + words * half, words) if words > 1 else f"%r{c + half}"
                    yield f"    st.global{'.v2' if words > 1 else ''}.b32 {to}, {what};"


def _tail(products: list[str], copies: list[str], loads: list[str], *, early: bool) -> Iterator[str]:
    """Places copies behind the first products, two at a time, and loads behind those, two at a time, or, not `early`,
    among the last products, as ptxas does."""
    copies, loads = list(copies), list(loads)
    for place, product in enumerate(products):
        yield product
        if copies:
            yield from (copies.pop(0) for _ in range(min(_PACE, len(copies))))
        elif early:
            yield from (loads.pop(0) for _ in range(min(_PACE, len(loads))))
        if not early and not copies and len(products) - place - 1 <= len(loads):
            yield from (
                loads.pop(0) for _ in range(min(-(-len(loads) // max(len(products) - place - 1, 1)), len(loads)))
            )
    yield from copies
    yield from loads


def _mixed(products: list[str], others: list[str], *, early: bool) -> Iterator[str]:
    """Places the other instructions behind the first products, two at a time, or, not `early`, spreads them evenly."""
    sent = 0
    for place, product in enumerate(products):
        yield product
        due = _PACE * (place + 1) if early else (place + 1) * len(others) // len(products)
        yield from others[sent:due]
        sent = due
    yield from others[sent:]


def _list(first: int, count: int) -> str:
    """Registers from `first` on, as an operand of PTX."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"
