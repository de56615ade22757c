"""The kernel of a GEMM by `wgmma`, as PTX that a Hopper GPU runs as it stands: persistent and warp-specialised.

Parameters: tensor maps of A, B and D; the address of the metadata (0 of a dense A); iterations of K; tiles of a
cluster along M and N; tiles along N that are taken together (`raster`). CTAs are a row of the grid.

Warpgroup 0 loads: its first thread waits until a stage is empty, announces the bytes and asks for them. The others
multiply, each with its part of the tile (`cooperative`) or a tile of its own (`pingpong`: named barriers let one begin
its main loop when the other has issued its own). One group of products stays under way while the next stage is waited
for; when it is complete, its stage is empty. Accumulators leave through shared memory, 64 rows by 128 bytes at a time.

An arrival at another CTA's mbarrier has no `.release.cluster`: ptxas makes a MEMBAR.ALL.GPU of it, which took 600
cycles of each iteration on an H200. What it orders are reads of wgmma that have completed; CUTLASS arrives likewise.

Mbarriers in shared memory: `full` of each stage (an arrival and the bytes), then `empty` of each (an arrival of each
warpgroup that multiplies, and of each CTA whose loads it would delay).
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from simulator.studies.gemm.wgmma.tile import (
    BOX_BYTES,
    BOX_ROWS,
    BOXES,
    CONSUMERS,
    CONTROL,
    ROW,
    STEP_BYTES,
    STEPS,
    WgmmaTile,
)

NAME = "gemm"
PARAMETERS = ("a", "b", "d", "metadata", "iterations", "clusters_m", "clusters_n", "raster")
_LOADING, _MULTIPLYING = (
    40,
    232,
)  # registers of a thread by role: 128 * 40 + 256 * 232 = 384 * 168; CUTLASS has the same
_FULL, _EMPTY = 0, 128  # where the mbarriers begin
_DESCRIPTOR = 1 << 62 | (8 * ROW >> 4) << 32 | 1 << 16  # 128-byte swizzle, 8 rows of 128 bytes after one another
_STORES = 1  # named barriers from here on: of the warpgroups that multiply, then of their turns
_TURNS = _STORES + CONSUMERS


def wgmma_kernel(tile: WgmmaTile, target: str = "sm_90a") -> str:
    """The kernel of a tile, for any M, N and K: what lies beyond the matrices is loaded as zeros and not stored.

    Raises:
        IsaError: a target without the tile's matrix instruction.
    """
    tile.check_target(target)
    cluster = f" .reqnctapercluster {tile.cluster}, 1, 1" if tile.cluster > 1 else ""
    maps = [f".param .align 64 .b8 {name}[128]" for name in PARAMETERS[:3]]
    words = [f".param .u32 {name}" for name in PARAMETERS[4:]]
    parameters = ", ".join([*maps, ".param .u64 metadata", *words])
    body = "\n".join(_Writer(tile).lines())
    head = f"// {tile}\n.version 8.6\n.target {target}\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
    return (
        f"{head}.visible .entry {NAME}({parameters})\n"
        f"    .reqntid {32 * tile.warps}, 1, 1\n    .minnctapersm 1{cluster}\n"
        f"{{\n{indent(body, '    ')}\n}}\n"
    )


class _Writer:
    """Writes the body, role by role."""

    def __init__(self, tile: WgmmaTile) -> None:
        self.tile, self.turns = tile, tile.schedule == "pingpong"
        self.sharing = tile.cluster_m + tile.cluster_n - 1  # CTAs that load something for a CTA, itself included
        self.arrivals = self.sharing * (1 if self.turns else CONSUMERS)

    def lines(self) -> Iterator[str]:
        """The whole body."""
        yield from self.registers()
        yield from self.begin()
        yield "setp.ge.u32 %p0, %warp, 4; @%p0 bra MULTIPLY;"
        yield f"setmaxnreg.dec.sync.aligned.u32 {_LOADING};"
        yield "setp.ne.u32 %p0, %thread, 0; @%p0 bra DONE;"
        yield from self.load()
        yield "bra DONE;"
        yield "MULTIPLY:"
        yield f"setmaxnreg.inc.sync.aligned.u32 {_MULTIPLYING};"
        yield from self.multiply()
        yield "DONE:"
        if self.tile.cluster > 1:  # shared memory of a CTA is there as long as others may arrive or write there
            yield "barrier.cluster.arrive; barrier.cluster.wait;"
        yield "ret;"

    def registers(self) -> Iterator[str]:
        """Declarations, and what all threads know."""
        tile = self.tile
        yield ".reg .pred %p<8>, %accumulates, %arrives, %more; .reg .b16 %rows, %columns;"
        yield ".reg .b32 %thread, %warp, %lane, %smem, %rank, %cluster, %clusters, %rank_m, %rank_n;"
        yield ".reg .b32 %iterations, %down, %across, %raster, %work, %works, %m, %n, %stage, %phase, %i, %t<12>;"
        yield ".reg .b32 %own, %previous, %store, %box, %peer; .reg .b64 %A, %B, %D, %E, %a, %b, %e, %descriptor;"
        yield f".reg .b32 %d<{tile.accumulators}>, %e0_<{max(tile.blocks_m * tile.words_e, 1)}>;"
        yield f".reg .b32 %e1_<{max(tile.blocks_m * tile.words_e, 1)}>, %o<4>;"
        yield from (
            f"mov.b64 %{name.upper()}, {name}; cvta.param.u64 %{name.upper()}, %{name.upper()};" for name in "abd"
        )
        yield "ld.param.u64 %E, [metadata]; ld.param.u32 %iterations, [iterations]; ld.param.u32 %down, [clusters_m];"
        yield "ld.param.u32 %across, [clusters_n]; ld.param.u32 %raster, [raster]; mul.lo.u32 %works, %down, %across;"
        yield "mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5; and.b32 %lane, %thread, 31; mov.u32 %smem, smem;"
        yield "mov.u32 %work, %ctaid.x; mov.u32 %clusters, %nctaid.x; mov.u32 %rank, 0;"
        if tile.cluster > 1:
            yield f"mov.u32 %rank, %cluster_ctarank; div.u32 %work, %work, {tile.cluster};"
            yield f"div.u32 %clusters, %clusters, {tile.cluster};"
        yield f"rem.u32 %rank_m, %rank, {tile.cluster_m}; div.u32 %rank_n, %rank, {tile.cluster_m};"
        yield "mov.u32 %stage, 0; mov.u32 %phase, 0;"

    def begin(self) -> Iterator[str]:
        """Mbarriers, by thread 0."""
        stages = self.tile.stages
        yield "setp.ne.u32 %p0, %thread, 0; @%p0 bra BEGIN;"
        yield from (f"prefetch.tensormap [%{name}];" for name in "ABD")
        yield from (f"mbarrier.init.shared::cta.b64 [%smem+{_FULL + 8 * stage}], 1;" for stage in range(stages))
        for stage in range(stages):
            yield f"mbarrier.init.shared::cta.b64 [%smem+{_EMPTY + 8 * stage}], {self.arrivals};"
        yield "fence.mbarrier_init.release.cluster;"
        yield "BEGIN:"
        if self.tile.cluster > 1:
            yield "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        else:
            yield "bar.sync 0;"

    # Tiles, stages

    def place(self) -> Iterator[str]:
        """The tile of `%work`: `%m` and `%n`, in tiles. Tiles are taken `raster` columns wide, row by row."""
        tile = self.tile
        yield "mul.lo.u32 %t0, %down, %raster; div.u32 %t1, %work, %t0; mul.lo.u32 %t2, %t1, %t0;"
        yield "sub.u32 %t2, %work, %t2; mul.lo.u32 %t1, %t1, %raster; sub.u32 %t3, %across, %t1;"
        yield "min.u32 %t3, %t3, %raster; div.u32 %m, %t2, %t3; mul.lo.u32 %t4, %m, %t3; sub.u32 %n, %t2, %t4;"
        yield "add.u32 %n, %n, %t1;"
        yield f"mad.lo.u32 %m, %m, {tile.cluster_m}, %rank_m; mad.lo.u32 %n, %n, {tile.cluster_n}, %rank_n;"

    def next_stage(self) -> str:
        """Goes on to the next stage."""
        return (
            f"add.u32 %stage, %stage, 1; setp.eq.u32 %p1, %stage, {self.tile.stages}; @%p1 mov.u32 %stage, 0; "
            "@%p1 xor.b32 %phase, %phase, 1;"
        )

    @staticmethod
    def wait(barrier: str, label: str) -> Iterator[str]:
        """Waits until a phase of an mbarrier is complete, the one whose parity is in `%phase`."""
        yield f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [{barrier}], %phase;"
        yield f"@!%p2 bra {label};"

    # Warpgroup 0

    def load(self) -> Iterator[str]:
        """Loads the tiles of the CTA, iteration by iteration."""
        tile = self.tile
        yield "xor.b32 %phase, %phase, 1;  // of a stage that nobody has used, the phase before is complete"
        # a row of the cluster shares A, a column of it B: masks of CTAs by rank
        row = sum(1 << tile.cluster_m * i for i in range(tile.cluster_n))
        yield f"shl.b32 %t0, {row}, %rank_m; cvt.u16.u32 %rows, %t0; mul.lo.u32 %t0, %rank_n, {tile.cluster_m};"
        yield f"shl.b32 %t0, {(1 << tile.cluster_m) - 1}, %t0; cvt.u16.u32 %columns, %t0;"
        yield "LOAD_TILE: setp.ge.u32 %p0, %work, %works; @%p0 bra LOADED;"
        yield from self.place()
        part_a, part_b = tile.bm // tile.cluster_n, tile.bn // tile.cluster_m
        yield f"mul.lo.u32 %t5, %m, {tile.bm}; mad.lo.u32 %t5, %rank_n, {part_a}, %t5;"
        yield f"mul.lo.u32 %t6, %n, {tile.bn}; mad.lo.u32 %t6, %rank_m, {part_b}, %t6;"
        if tile.sparse:
            yield f"mul.lo.u32 %t0, %m, %iterations; mul.wide.u32 %e, %t0, {tile.bytes_e}; add.u64 %e, %e, %E;"
        yield "mov.u32 %i, 0; mov.u32 %t7, 0; mov.u32 %t8, 0;"
        yield "LOAD: shl.b32 %t0, %stage, 3; add.u32 %t0, %t0, %smem;"
        yield from self.wait(f"%t0+{_EMPTY}", "EMPTY")
        size = tile.bytes_a + tile.bytes_b + tile.bytes_e
        yield f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%t0+{_FULL}], {size};"
        yield f"mad.lo.u32 %t1, %stage, {tile.stage_bytes}, %smem; add.u32 %t1, %t1, {CONTROL};"
        yield f"mad.lo.u32 %t2, %rank_n, {part_a * ROW}, %t1;"
        yield self.copy("%t2", "%A", "%t7", "%t5", "%rows" if tile.cluster_n > 1 else "")
        yield f"mad.lo.u32 %t3, %rank_m, {part_b * ROW}, %t1; add.u32 %t3, %t3, {tile.bytes_a};"
        for half in range(tile.row_b // ROW):
            if half:
                yield f"add.u32 %t3, %t3, {tile.bn * ROW}; add.u32 %t8, %t8, {tile.columns_a};"
            yield self.copy("%t3", "%B", "%t8", "%t6", "%columns" if tile.cluster_m > 1 else "")
        if tile.sparse:
            yield f"add.u32 %t4, %t1, {tile.bytes_a + tile.bytes_b};"
            yield "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            yield f"    [%t4], [%e], {tile.bytes_e}, [%t0+{_FULL}]; add.u64 %e, %e, {tile.bytes_e};"
        yield f"add.u32 %t7, %t7, {tile.columns_a}; add.u32 %t8, %t8, {tile.columns_a};"
        yield self.next_stage()
        yield "add.u32 %i, %i, 1; setp.lt.u32 %more, %i, %iterations; @%more bra LOAD;"
        yield "add.u32 %work, %work, %clusters; bra LOAD_TILE;"
        yield "LOADED:"

    @staticmethod
    def copy(to: str, tensor: str, column: str, row: str, mask: str) -> str:
        """A tensor copy of a box to shared memory; with a mask to the same place in these CTAs."""
        many, masked = (".multicast::cluster", f", {mask}") if mask else ("", "")
        name = f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{many}"
        return f"{name}\n    [{to}], [{tensor}, {{{column}, {row}}}], [%t0+{_FULL}]{masked};"

    # The warpgroups that multiply

    def multiply(self) -> Iterator[str]:
        """Multiplies and stores the tiles of a warpgroup."""
        tile = self.tile
        rows = 0 if self.turns else tile.blocks_m * BOX_ROWS
        yield "shr.u32 %own, %warp, 2; sub.u32 %own, %own, 1; and.b32 %t9, %thread, 127;  // thread of the warpgroup"
        yield f"setp.lt.u32 %arrives, %t9, {self.sharing};"
        if tile.cluster > 1:
            yield from self.peers()
        yield from self.store_places()
        if self.turns:
            yield "setp.eq.u32 %p0, %own, 0; @%p0 bra TILE;"
            yield f"bar.arrive {_TURNS}, 256;  // the first may begin"
            yield from self.skip_tile()
        yield "TILE: setp.ge.u32 %p0, %work, %works; @%p0 bra MULTIPLIED;"
        yield from self.place()
        if self.turns:
            yield f"add.u32 %t0, %own, {_TURNS}; bar.sync %t0, 256;"
        yield "setp.ne.u32 %accumulates, %lane, %lane;  // the first product overwrites D"
        yield "mov.u32 %i, 0; mov.u32 %previous, 0;"
        yield from self.main_loop(rows)
        if self.turns:
            yield f"add.u32 %t0, %work, %clusters; setp.lt.u32 %p0, %t0, %works; sub.u32 %t1, {_TURNS + 1}, %own;"
            yield "@%p0 bar.arrive %t1, 256;"
        yield "wgmma.wait_group.sync.aligned 0;"
        yield from self.release()
        yield from self.store(rows)
        yield "add.u32 %work, %work, %clusters;"
        if self.turns:
            yield from self.skip_tile()
        yield "bra TILE;"
        yield "MULTIPLIED:"

    def peers(self) -> Iterator[str]:
        """`%peer`: the CTA to which a thread arrives: those of its column, then the others of its row."""
        tile = self.tile
        yield f"mad.lo.u32 %t0, %rank_n, {tile.cluster_m}, %t9;"
        yield f"sub.u32 %t1, %t9, {tile.cluster_m}; setp.ge.u32 %p0, %t1, %rank_n; selp.u32 %t2, 1, 0, %p0;"
        yield f"add.u32 %t1, %t1, %t2; mad.lo.u32 %t1, %t1, {tile.cluster_m}, %rank_m;"
        yield f"setp.lt.u32 %p0, %t9, {tile.cluster_m}; selp.b32 %peer, %t0, %t1, %p0;"

    def skip_tile(self) -> Iterator[str]:
        """Leaves a tile to the other warpgroup, and its stages."""
        yield "add.u32 %work, %work, %clusters; add.u32 %t0, %stage, %iterations;"
        yield f"div.u32 %t1, %t0, {self.tile.stages}; mul.lo.u32 %t2, %t1, {self.tile.stages};"
        yield "sub.u32 %stage, %t0, %t2;"
        yield "and.b32 %t1, %t1, 1; xor.b32 %phase, %phase, %t1;"

    def main_loop(self, rows: int) -> Iterator[str]:
        """The products of a tile. Metadata of two iterations are in registers: products under way read the others."""
        copies = 2 if self.tile.sparse else 1
        yield "LOOP:"
        for copy in range(copies):
            if copy:
                yield "setp.ge.u32 %p0, %i, %iterations; @%p0 bra LOOPED;"
            yield from self.iteration(rows, copy)
        yield "setp.lt.u32 %more, %i, %iterations; @%more bra LOOP;"
        yield "LOOPED:"

    def iteration(self, rows: int, copy: int) -> Iterator[str]:
        """The products of a stage."""
        tile = self.tile
        yield "shl.b32 %t0, %stage, 3; add.u32 %t0, %t0, %smem;"
        yield from self.wait(f"%t0+{_FULL}", f"FULL{copy}")
        yield f"mad.lo.u32 %t1, %stage, {tile.stage_bytes}, %smem; mad.lo.u32 %t2, %own, {rows * ROW}, %t1;"
        if tile.sparse:
            size = 4 * tile.words_e
            yield f"mad.lo.u32 %t3, %t9, {size}, %t1; mad.lo.u32 %t3, %own, {rows // BOX_ROWS * 128 * size}, %t3;"
            for block in range(tile.blocks_m):
                words = ", ".join(f"%e{copy}_{block * tile.words_e + i}" for i in range(tile.words_e))
                at = CONTROL + tile.bytes_a + tile.bytes_b + block * 128 * size
                yield f"ld.shared.v{tile.words_e}.b32 {{{words}}}, [%t3+{at}];"
        for name, base, at in (("a", "%t2", CONTROL), ("b", "%t1", CONTROL + tile.bytes_a)):
            yield f"add.u32 %t4, {base}, {at}; shr.u32 %t4, %t4, 4; cvt.u64.u32 %{name}, %t4;"
            yield f"or.b64 %{name}, %{name}, {_DESCRIPTOR:#x};"
        yield "wgmma.fence.sync.aligned;"
        for step in range(STEPS):
            yield from self.products(step, copy)
        yield "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;"
        yield "setp.eq.u32 %p0, %i, 0; @%p0 bra FIRST" + f"{copy};"
        yield from self.release()
        yield f"FIRST{copy}: mov.u32 %previous, %stage; add.u32 %i, %i, 1;"
        yield self.next_stage()

    def products(self, step: int, copy: int) -> Iterator[str]:
        """The products of a step, 64 rows after 64 rows."""
        tile, each = self.tile, self.tile.bn // 2
        k = step * STEP_BYTES * (2 if tile.sparse else 1)  # bytes of a row of B
        b_at = k // ROW * tile.bn * ROW + k % ROW
        for block in range(tile.blocks_m):
            a_at = block * BOX_ROWS * ROW + step * STEP_BYTES
            d = ", ".join(f"%d{block * each + i}" for i in range(each))
            yield f"add.u64 %A, %a, {a_at >> 4}; add.u64 %B, %b, {b_at >> 4};"
            metadata = f"%e{copy}_{block * tile.words_e + step // tile.selectors}"
            yield f"{tile.opcode}\n    {{{d}}},\n    %A, %B, {tile.operands(metadata, step, '%accumulates')};"
        if not step:
            yield "setp.eq.u32 %accumulates, %lane, %lane;"

    def release(self) -> Iterator[str]:
        """Tells those that load it that a stage is empty: the one before."""
        yield f"shl.b32 %t0, %previous, 3; add.u32 %t0, %t0, %smem; add.u32 %t0, %t0, {_EMPTY};"
        if self.tile.cluster > 1:
            yield "@%arrives mapa.shared::cluster.u32 %t0, %t0, %peer;"
            yield "@%arrives mbarrier.arrive.shared::cluster.b64 _, [%t0];"
        else:
            yield "@%arrives mbarrier.arrive.shared::cta.b64 _, [%t0];"

    # D

    def store_places(self) -> Iterator[str]:
        """`%store`: where the thread's first words of D go in shared memory, up to the permutation of 16-byte columns
        that the swizzle makes of the row (`%box`)."""
        tile = self.tile
        yield f"mad.lo.u32 %store, %own, {BOXES * BOX_BYTES}, %smem; add.u32 %store, %store, {tile.store_at};"
        yield f"and.b32 %t0, %warp, 3; mad.lo.u32 %store, %t0, {16 * ROW}, %store;"
        if tile.bytes_d == 2:  # stmatrix: addresses of rows 0-7 and 8-15 of a column of 16 bytes, then of the next
            yield f"and.b32 %t0, %lane, 15; mad.lo.u32 %store, %t0, {ROW}, %store; and.b32 %t0, %lane, 7;"
            yield "shr.u32 %t1, %lane, 4; xor.b32 %t0, %t0, %t1; shl.b32 %box, %t0, 4;"
        else:  # two words of row lane / 4, and of the row 8 below
            yield f"shr.u32 %t0, %lane, 2; mad.lo.u32 %store, %t0, {ROW}, %store; and.b32 %t1, %lane, 3;"
            yield "shr.u32 %t2, %t1, 1; xor.b32 %t0, %t0, %t2; shl.b32 %box, %t0, 4; and.b32 %t1, %t1, 1;"
            yield "shl.b32 %t1, %t1, 3; or.b32 %box, %box, %t1;"

    def store(self, rows: int) -> Iterator[str]:
        """Stores the accumulators of a tile, a box of 64 rows and 128 bytes after the other."""
        tile, columns = self.tile, ROW // self.tile.bytes_d
        yield f"mul.lo.u32 %t5, %m, {tile.bm}; mad.lo.u32 %t5, %own, {rows}, %t5; mul.lo.u32 %t6, %n, {tile.bn};"
        yield f"add.u32 %t7, %own, {_STORES}; setp.ne.u32 %p3, %t9, 0;"
        boxes = tile.blocks_m * tile.bn // columns
        for number in range(boxes):
            block, column = divmod(number, tile.bn // columns)
            place = number % BOXES * BOX_BYTES
            pending = BOXES - 1 if number or not boxes % BOXES else 0  # what still leaves is not where this box goes
            yield f"@!%p3 cp.async.bulk.wait_group.read {pending};"
            yield "bar.sync %t7, 128;"
            yield from self.box(block * tile.bn // 2 + column * columns // 2, place)
            yield "fence.proxy.async.shared::cta;"
            yield "bar.sync %t7, 128;"
            yield f"@%p3 bra STORED{number};"
            yield f"mad.lo.u32 %t0, %own, {BOXES * BOX_BYTES}, %smem; add.u32 %t0, %t0, {tile.store_at + place};"
            yield f"add.u32 %t1, %t6, {column * columns}; add.u32 %t2, %t5, {block * BOX_ROWS};"
            yield "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%D, {%t1, %t2}], [%t0];"
            yield f"cp.async.bulk.commit_group; STORED{number}:"

    def box(self, first: int, place: int) -> Iterator[str]:
        """Writes the thread's part of a box to shared memory, from accumulator `first` on."""
        tile = self.tile
        if tile.bytes_d == 2:
            convert = f"cvt.rn.{tile.output}x2.f32"
            for quarter in range(4):
                for i in range(4):
                    d = first + 8 * quarter + 2 * i
                    yield f"{convert} %o{i}, %d{d + 1}, %d{d};"
                yield f"xor.b32 %t0, %box, {32 * quarter}; add.u32 %t0, %t0, %store;"
                yield f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%t0+{place}], {{%o0, %o1, %o2, %o3}};"
        else:
            for quarter in range(4):
                d = first + 4 * quarter
                yield f"xor.b32 %t0, %box, {32 * quarter}; add.u32 %t0, %t0, %store;"
                yield f"st.shared.v2.b32 [%t0+{place}], {{%d{d}, %d{d + 1}}};"
                yield f"st.shared.v2.b32 [%t0+{place + 8 * ROW}], {{%d{d + 2}, %d{d + 3}}};"
