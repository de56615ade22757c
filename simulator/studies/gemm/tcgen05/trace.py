"""Writes the kernel of a tcgen05 GEMM as a trace. Warps have roles, as in CUTLASS's persistent kernels for sm_100:

    warps 0-3    bring D home from Tensor Memory, 32 rows each, and store it
    warp 4       copies metadata and scale factors to Tensor Memory, multiplies, commits
    warps 5-7    copy A, B, and metadata with scale factors into shared memory, a bulk copy each in an iteration

They meet at mbarriers: `full` and `empty` for each stage of shared memory, `done` and `free` for each tile of D in
Tensor Memory. In a pair the first CTA multiplies for both; warp 4 of the second tells it that its own part has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isa import Target
from isa.shared_memory.tile import Tile as SharedTile
from isa.tensor_memory.scales import scale_factors
from simulator.studies.gemm.tcgen05.operands import Places, places
from simulator.studies.gemm.tcgen05.tile import META_BYTES, SCALE_BYTES, WARPS, Tcgen05Tile
from simulator.studies.gemm.tile import check_sizes

_SLOT = 192  # where tcgen05.alloc writes, from the control block on
_CONTROL, _BASE, _SCRATCH, _ADDRESS = 0, 1, 2, 3  # 32-bit registers of every warp
_PARITY = 8  # from here on: a parity for each stage, then for each tile of D
_IDESC, _D = 32, 64  # instruction descriptors of the steps; what tcgen05.ld brings
_A, _B, _COPY, _SOURCE = 0, 1, 2, 3  # 64-bit registers
_STORE_COLUMNS = (64, 32, 16, 8)  # columns that a tcgen05.ld brings


def tcgen05_trace(
    tile: Tcgen05Tile, k: int, *, rounds: int = 1, target: str | Target = "sm_100a", loads: str = ""
) -> str:
    """The trace of a CTA, or of a pair, that computes `rounds` tiles one after another for a problem of K = k.

    Args:
        loads: `.load` statements, if the values matter; without them all operands are zero.

    Raises:
        IsaError: K below 1, or a target without the tile's matrix instruction.
    """
    check_sizes(k=k)
    tile.check_target(target)
    iterations = -(-k // tile.bk)
    where = places(tile, iterations * tile.bk)
    parts = [
        f"// {tile}: D = A * B^T of {tile.bm} x {tile.bn}, K = {k}",
        ".trace 1",
        f".target {target}",
        f".warps {WARPS}",
        f".shared {tile.shared_bytes}",
        f".global {where.size}",
        *([loads] if loads else []),
    ]
    for cta in range(tile.group):
        writer = _Writer(tile, where, cta, iterations, rounds)
        parts.append(f".cta {cta} {{")
        for warps, program in writer.programs():
            parts += [f".warp {warps} {{", *writer.start(warps), *program(), *writer.end(warps), "}"]
        parts.append("}")
    parts.append(f'.store "d", global[{where.d}], {tile.bm * tile.bn * tile.bytes_d};')
    return "\n".join(parts) + "\n"


class _Writer:
    """Writes the programs of one CTA."""

    def __init__(self, tile: Tcgen05Tile, where: Places, cta: int, iterations: int, rounds: int) -> None:
        self.tile, self.where, self.cta, self.iterations, self.rounds = tile, where, cta, iterations, rounds
        self.group = f"cta_group::{tile.group}"
        self.columns = max(32, 1 << (tile.tmem_columns - 1).bit_length())
        self.meta = tile.buffers * tile.bn  # the first column behind D

    def programs(self) -> Iterator[tuple[str, Callable[[], Iterator[str]]]]:
        """The warps of each role, and what writes their program between setup and end."""
        tile, where = self.tile, self.where
        yield "0-3", self.store
        yield "4", self.multiply if self.cta == 0 else self.relay
        yield "5", lambda: self.copy(where.a[self.cta], tile.bytes_a, 0)
        yield "6", lambda: self.copy(where.b[self.cta], tile.bytes_b, tile.bytes_a)
        if tile.bytes_extra:
            yield "7", lambda: self.copy(where.extra[self.cta], tile.bytes_extra, tile.bytes_a + tile.bytes_b)
        else:
            yield "7", lambda: iter(())

    # mbarriers

    def full(self, stage: int) -> str:
        """The mbarrier of a stage that has come."""
        return f"[%r{_CONTROL}+{8 * stage}]"

    def empty(self, stage: int) -> str:
        """The mbarrier of a stage that has been multiplied."""
        return f"[%r{_CONTROL}+{8 * (8 + stage)}]"

    def done(self, buffer: int) -> str:
        """The mbarrier of a tile of D that is complete in Tensor Memory."""
        return f"[%r{_CONTROL}+{8 * (16 + buffer)}]"

    def free(self, buffer: int) -> str:
        """The mbarrier of a tile of D that has been brought home."""
        return f"[%r{_CONTROL}+{8 * (18 + buffer)}]"

    @staticmethod
    def wait(barrier: str, place: int) -> Iterator[str]:
        """Waits for the next phase of an mbarrier whose parity stands in this place."""
        yield f"    mbarrier.try_wait.parity.shared::cta.b64 %p7, {barrier}, %r{_PARITY + place};"
        yield f"    xor.b32 %r{_PARITY + place}, %r{_PARITY + place}, 1;"

    # Begin and end

    def start(self, warps: str) -> Iterator[str]:
        """Mbarriers and Tensor Memory, by warp 4; the address of the latter, and everybody's parities."""
        tile = self.tile
        yield f"    mov.u32 %r{_CONTROL}, {tile.control}; mov.u32 %r{_SCRATCH}, %laneid;"
        yield f"    setp.eq.u32 %p0, %r{_SCRATCH}, 0;"
        if warps == "4":
            copiers = 3 if tile.bytes_extra else 2
            arrivals = [(self.full(s), copiers + (tile.group - 1) * (1 - self.cta)) for s in range(tile.stages)]
            arrivals += [(self.empty(s), 1) for s in range(tile.stages)]
            arrivals += [(self.done(b), 1) for b in range(tile.buffers)]
            arrivals += [(self.free(b), 4 * tile.group) for b in range(tile.buffers)]
            yield from (f"    @%p0 mbarrier.init.shared::cta.b64 {place}, {count};" for place, count in arrivals)
            yield "    @%p0 fence.mbarrier_init.release.cluster;"
            slot = f"[%r{_CONTROL}+{_SLOT}]"
            yield f"    tcgen05.alloc.{self.group}.sync.aligned.shared::cta.b32 {slot}, {self.columns};"
            yield f"    tcgen05.relinquish_alloc_permit.{self.group}.sync.aligned;"
        yield from self.everyone()
        yield f"    ld.shared.b32 %r{_BASE}, [%r{_CONTROL}+{_SLOT}];"
        first = 1 if warps in ("5", "6", "7") else 0  # nothing to wait for at first: parity 1
        yield "    " + " ".join(f"mov.u32 %r{_PARITY + s}, {first};" for s in range(tile.stages))
        turns = 1 if warps == "4" else 0
        yield "    " + " ".join(f"mov.u32 %r{_PARITY + tile.stages + b}, {turns};" for b in range(tile.buffers))

    def everyone(self) -> Iterator[str]:
        """All threads of the CTA, or of the pair, wait for each other."""
        yield "    tcgen05.fence::before_thread_sync;"
        if self.tile.group > 1:
            yield "    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        else:
            yield "    bar.sync 0;"
        yield "    tcgen05.fence::after_thread_sync;"

    def end(self, warps: str) -> Iterator[str]:
        """Gives Tensor Memory back when nobody uses it any more."""
        yield from self.everyone()
        if warps == "4":
            yield f"    tcgen05.dealloc.{self.group}.sync.aligned.b32 %r{_BASE}, {self.columns};"

    # Loops

    def turns(self, one: Callable[[int], Iterator[str]]) -> Iterator[str]:
        """Every round; each of them for its tile of D in turn."""
        return _repeated(self.rounds, self.tile.buffers, one)

    def stages(self, one: Callable[[int], Iterator[str]]) -> Iterator[str]:
        """Every iteration of a round, by its stage of shared memory."""
        return _repeated(self.iterations, self.tile.stages, one)

    # Roles

    def copy(self, source: int, size: int, offset: int) -> Iterator[str]:
        """Copies one of the operands, stage by stage."""

        def stage(number: int) -> Iterator[str]:
            to = number * self.tile.stage_bytes + offset
            yield from self.wait(self.empty(number), number)
            yield f"    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, {self.full(number)}, {size};"
            yield (
                f"    mov.u32 %r{_ADDRESS}, {to}; "
                "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                f"[%r{_ADDRESS}], [%rd{_SOURCE}], {size}, {self.full(number)};"
            )
            yield f"    add.u64 %rd{_SOURCE}, %rd{_SOURCE}, {size};"

        def turn(_: int) -> Iterator[str]:
            yield f"    mov.u64 %rd{_SOURCE}, {source};"
            yield from self.stages(stage)

        yield from self.turns(turn)

    def relay(self) -> Iterator[str]:
        """The second CTA of a pair tells the first, stage by stage, that its part has come."""

        def stage(number: int) -> Iterator[str]:
            yield from self.wait(self.full(number), number)
            yield f"    add.u32 %r{_SCRATCH}, %r{_ADDRESS}, {8 * number};"
            yield f"    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r{_SCRATCH}];"

        yield f"    mapa.shared::cluster.u32 %r{_ADDRESS}, %r{_CONTROL}, 0;"
        yield from self.turns(lambda _: self.stages(stage))

    def multiply(self) -> Iterator[str]:
        """The thread that multiplies, for both CTAs of a pair."""
        tile = self.tile
        for step in range(tile.steps):
            yield f"    mov.b32 %r{_IDESC + step}, {tile.descriptor(step).encode():#010x};"
        yield "    mov.u16 %rs0, 3;"

        def turn(buffer: int) -> Iterator[str]:
            yield from self.wait(self.free(buffer), tile.stages + buffer)
            yield "    tcgen05.fence::after_thread_sync;"
            yield f"    setp.ne.u32 %p1, %r{_CONTROL}, %r{_CONTROL};  // the first product overwrites D"
            yield from self.stages(lambda stage: self.products(buffer, stage))
            yield from self.commit(self.done(buffer))

        yield from self.turns(turn)

    def products(self, buffer: int, stage: int) -> Iterator[str]:
        """The instructions of one stage."""
        tile = self.tile
        yield from self.wait(self.full(stage), stage)
        yield "    tcgen05.fence::after_thread_sync;"
        columns = self.meta + stage * tile.columns_extra
        yield from self.to_tensor_memory(stage, columns)
        a, b, factors = tile.tile_a(stage), tile.tile_b(stage), 0
        if tile.scaled:
            factors = scale_factors(tile.kind, tile.vector)
        for step in range(tile.steps):
            stored = step * tile.k // 2 if tile.sparse else step * tile.k
            yield f"    mov.b64 %rd{_A}, {a.at(k=stored).encode():#018x};"
            yield f"    mov.b64 %rd{_B}, {b.at(k=step * tile.k).encode():#018x};"
            operands = [f"[%r{_BASE}+{buffer * tile.bn}]", f"%rd{_A}", f"%rd{_B}"]
            if tile.sparse:
                operands.append(f"[%r{_BASE}+{columns + 2 * (step // len(tile.metadata.selectors))}]")
            operands.append(f"%r{_IDESC + step}")
            if tile.scaled:
                image, first = step * factors // 4, columns + 4 * tile.images_e
                operands.append(f"[%r{_BASE}+{first + 4 * image}]")
                operands.append(f"[%r{_BASE}+{first + 4 * (tile.images_scale + image * tile.blocks_b)}]")
            overwrites = stage == step == 0
            yield f"    @%p0 {tile.opcode} {', '.join(operands)}, {'%p1' if overwrites else '1'};"
            if overwrites:
                yield f"    setp.eq.u32 %p1, %r{_CONTROL}, %r{_CONTROL};"
        yield from self.commit(self.empty(stage))

    def to_tensor_memory(self, stage: int, columns: int) -> Iterator[str]:
        """Copies the metadata and the scale factors of a stage to Tensor Memory."""
        tile = self.tile
        at = stage * tile.stage_bytes + tile.bytes_a + tile.bytes_b
        copies = [("128x128b", 128, META_BYTES)] * tile.images_e
        copies += [("32x128b.warpx4", 32, SCALE_BYTES)] * (tile.images_scale * (1 + tile.blocks_b))
        for place, (shape, rows, size) in enumerate(copies):
            descriptor = SharedTile(rows, 16, "u8", swizzle="none", start=at).descriptor.encode()
            yield f"    mov.b64 %rd{_COPY}, {descriptor:#018x};"
            yield f"    @%p0 tcgen05.cp.{self.group}.{shape} [%r{_BASE}+{columns + 4 * place}], %rd{_COPY};"
            at += size

    def commit(self, barrier: str) -> Iterator[str]:
        """Lets an mbarrier, of both CTAs of a pair, know when all that was issued is complete."""
        opcode = f"tcgen05.commit.{self.group}.mbarrier::arrive::one.shared::cluster"
        if self.tile.group > 1:
            yield f"    @%p0 {opcode}.multicast::cluster.b64 {barrier}, %rs0;"
        else:
            yield f"    @%p0 {opcode}.b64 {barrier};"

    def store(self) -> Iterator[str]:
        """Warps 0-3: D from Tensor Memory to global memory, where it lies column by column, as BLAS has it: the 32 rows
        of a warp are a cache line."""
        tile = self.tile
        begin = self.where.d + self.cta * tile.rows_a * tile.bytes_d
        yield f"    mov.u32 %r{_SCRATCH}, %tid.x; shr.u32 %r{_ADDRESS}, %r{_SCRATCH}, 5;"
        yield f"    shl.b32 %r{_ADDRESS}, %r{_ADDRESS}, 21; add.u32 %r{_BASE}, %r{_BASE}, %r{_ADDRESS};  // its lanes"
        yield f"    mul.wide.u32 %rd{_SOURCE}, %r{_SCRATCH}, {tile.bytes_d};"
        yield f"    add.u64 %rd{_SOURCE}, %rd{_SOURCE}, {begin};"
        if tile.group > 1:
            yield f"    mapa.shared::cluster.u32 %r{_ADDRESS}, %r{_CONTROL}, 0;"
        yield from self.turns(self.home)

    def home(self, buffer: int) -> Iterator[str]:
        """Brings one tile of D home, some columns at a time."""
        tile = self.tile
        yield from self.wait(self.done(buffer), tile.stages + buffer)
        yield "    tcgen05.fence::after_thread_sync;"
        column = 0
        while column < tile.bn:
            width = next(size for size in _STORE_COLUMNS if column + size <= tile.bn)
            names = ", ".join(f"%r{_D + i}" for i in range(width))
            place = f"[%r{_BASE}+{buffer * tile.bn + column}]"
            yield f"    tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {{{names}}}, {place};"
            yield "    tcgen05.wait::ld.sync.aligned;"
            if column + width == tile.bn:
                yield from self.release(buffer)
            for i in range(width):
                offset = (column + i) * tile.bm * tile.bytes_d
                yield f"    st.global.b32 [%rd{_SOURCE}+{offset}], %r{_D + i};"
            column += width

    def release(self, buffer: int) -> Iterator[str]:
        """Tells the thread that multiplies that a warp has read its part of a tile of D."""
        yield "    tcgen05.fence::before_thread_sync;"
        if self.tile.group > 1:
            to = f"[%r{_ADDRESS}+{8 * (18 + buffer)}]"
            yield f"    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, {to};"
        else:
            yield f"    @%p0 mbarrier.arrive.shared::cta.b64 _, {self.free(buffer)};"


def _repeated(count: int, places: int, one: Callable[[int], Iterator[str]]) -> Iterator[str]:
    """`one(place)` so many times, for each place in turn: a loop over all places, and what is left of a turn."""
    whole, rest = divmod(count, places)
    if whole:
        yield f"    .repeat {whole} {{"
        for place in range(places):
            yield from one(place)
        yield "    }"
    for place in range(rest):
        yield from one(place)
