"""Main loops of warp-specialised products: one warp loads tiles of A and B by tensor maps into a ring of stages, one or
two warpgroups multiply them with wgmma, as CUTLASS's kernels for sm_90 do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from measurements.hopper.kernels import Kernel, fill, mbarriers, wait
from measurements.hopper.products import K_BYTES, TYPES, Stream

DATA = 1024


@dataclass(frozen=True)
class Pipeline:
    """A loop over tiles of K: a stage has 64 rows of A for each warpgroup and `n` rows of B, 128 bytes of A as stored.

    Attributes:
        stages: of the ring; `warpgroups`: that multiply.
        metadata: whether sparse tiles load metadata from shared memory (`ld.shared`, one register an instruction).
        multicast: CTAs of a cluster that share B, each loading its part for all.
        ctas: of the grid; rows of the tensors are `total`, so that all is found in L2.
        pending: groups of wgmma under way behind a stage.
        scope: of the arrivals at stages that are free, in clusters: "cluster" (release.cluster, which ptxas makes
            fences for the whole chip of) or "cta" (as CUTLASS writes them).
    """

    kind: str
    n: int
    sparse: bool = False
    stages: int = 4
    warpgroups: int = 2
    metadata: bool = False
    multicast: int = 1
    ctas: int = 1
    d: str = "f32"
    pending: int = 1
    total: int = 4096
    scope: str = "cluster"

    @property
    def name(self) -> str:
        """Of the kernel."""
        return (
            f"pipe_{'sp' if self.sparse else 'dense'}_{self.kind}_{self.d}_n{self.n}_s{self.stages}_w{self.warpgroups}"
            f"_{'meta' if self.metadata else 'plain'}_m{self.multicast}_c{self.ctas}_p{self.pending}"
            f"{'' if self.scope == 'cluster' else '_' + self.scope}"
        )

    @property
    def a_bytes(self) -> int:
        """Of A in a stage."""
        return 64 * self.warpgroups * 128

    @property
    def b_bytes(self) -> int:
        """Of B in a stage."""
        return self.n * 128 * (2 if self.sparse else 1)

    @property
    def e_bytes(self) -> int:
        """Of metadata in a stage: 2 bits for each stored element (4 of tf32)."""
        return self.a_bytes * 8 // TYPES[self.kind] // 4 if self.metadata else 0

    @property
    def stage_bytes(self) -> int:
        """Of all in a stage, on whole kilobytes."""
        return -(-(self.a_bytes + self.b_bytes + self.e_bytes) // 1024) * 1024

    def kernel(self) -> Kernel:
        """The loop as a kernel; warpgroup 0 loads."""
        stream = Stream(self.kind, self.n, self.d, self.sparse, warpgroups=self.warpgroups)
        count, empty = stream.accumulators, 8 * self.stages
        lines = (
            f".reg .b32 %d<{count}>, %e<4>, %s<16>, %stage, %phase, %row, %column;",
            ".reg .b64 %A<8>, %B<8>, %base; .reg .b16 %mask;",
            fill(DATA, self.stages * self.stage_bytes, 0),
            *mbarriers(0, [1] * self.stages + [self.warpgroups * self.multicast] * self.stages),
            f"mov.b16 %mask, {(1 << self.multicast) - 1}; mov.u32 %stage, 0;",
            "setp.ge.u32 %q0, %w, 4; @%q0 bra MULTIPLY;",
            "setp.ne.u32 %q0, %thread, 0; @%q0 bra ENDED;",
            *self._producer(empty),
            "bra ENDED;",
            "MULTIPLY:",
            *self._consumer(stream, empty),
            "ENDED: barrier.cluster.arrive; barrier.cluster.wait;",
        )
        rows = self.n // self.multicast
        maps = (
            (self.total, 4096, 64 * self.warpgroups, 128, "128B"),
            (self.total, 4096, min(rows, 256), 128, "128B"),
        )
        return Kernel(self.name, 128 * (1 + self.warpgroups), lines, self.ctas, self.multicast, (16, 80), maps)

    def _producer(self, empty: int) -> Iterator[str]:
        yield "mov.u32 %phase, 1; mov.u32 %n, 0; mov.u32 %column, 0;"
        yield f"mov.u32 %x4, %ctaid.x; mul.lo.u32 %row, %x4, {64 * self.warpgroups};"
        yield f"and.b32 %row, %row, {self.total // 2 - 1};"
        yield "LOAD:"
        yield f"shl.b32 %s0, %stage, 3; add.u32 %s0, %s0, %smem; add.u32 %s1, %s0, {empty};"
        yield wait("%s1", "%phase", "EMPTY")
        bytes_of = self.a_bytes + self.b_bytes + self.e_bytes
        yield f"mbarrier.arrive.expect_tx.shared.b64 _, [%s0], {bytes_of};"
        yield f"mad.lo.u32 %s2, %stage, {self.stage_bytes}, %smem; add.u32 %s2, %s2, {DATA};"
        copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        columns = 128 * 8 // TYPES[self.kind]
        yield f"{copy} [%s2], [%m0, {{%column, %row}}], [%s0];"
        part = self.n // self.multicast
        yield f"add.u32 %s3, %s2, {self.a_bytes}; mov.u32 %s4, 0;"
        cast, mask = "", ""
        if self.multicast > 1:
            cast, mask = ".multicast::cluster", ", %mask"
            yield f"mad.lo.u32 %s3, %rank, {part * 128}, %s3; mul.lo.u32 %s4, %rank, {part};"
        for atom in range(2 if self.sparse else 1):
            at = f"%s{5 + atom}"
            yield f"add.u32 {at}, %s3, {atom * self.n * 128}; add.u32 %s8, %column, {atom * columns};"
            yield f"{copy}{cast} [{at}], [%m1, {{%s8, %s4}}], [%s0]{mask};"
        if self.e_bytes:
            yield f"add.u32 %s9, %s2, {self.a_bytes + self.b_bytes}; ld.param.u64 %t4, [out]; add.u64 %t4, %t4, 65536;"
            copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            yield f"{copy} [%s9], [%t4], {self.e_bytes}, [%s0];"
        yield f"add.u32 %column, %column, {columns}; and.b32 %column, %column, {4096 * 8 // TYPES[self.kind] // 2 - 1};"
        yield f"add.u32 %stage, %stage, 1; setp.eq.u32 %q4, %stage, {self.stages}; @%q4 mov.u32 %stage, 0;"
        yield "@%q4 xor.b32 %phase, %phase, 1; add.u32 %n, %n, 1; setp.lt.u32 %more, %n, %loops; @%more bra LOAD;"

    def _consumer(self, stream: Stream, empty: int) -> Iterator[str]:
        yield "mov.u32 %phase, 0; mov.b32 %s10, 0; mov.b32 %s12, 0; setp.ne.u32 %q5, %lane, 0; and.b32 %s14, %w, 3;"
        yield "setp.ne.or.u32 %q5, %s14, 0, %q5;"  # one thread of a warpgroup arrives
        yield from (
            f"mov.b32 %e{i}, 0xeeeeeeee;" if self.kind != "tf32" else f"mov.b32 %e{i}, 0x44444444;" for i in range(4)
        )
        yield from (f"mov.b32 %d{i}, 0;" for i in range(stream.accumulators))
        yield f"shr.u32 %s11, %w, 2; sub.u32 %s11, %s11, 1; shl.b32 %s11, %s11, 13; add.u32 %s11, %s11, {DATA};"
        yield "add.u32 %s11, %s11, %smem;"
        yield "mov.u64 %t0, %clock64; mov.u32 %n, 0;"
        yield "LOOP:"
        yield "shl.b32 %s0, %stage, 3; add.u32 %s0, %s0, %smem;"
        yield wait("%s0", "%phase", "FULL")
        yield f"mul.lo.u32 %s2, %stage, {self.stage_bytes}; add.u32 %s3, %s2, %s11;"
        yield f"add.u32 %s4, %s2, {DATA + self.a_bytes}; add.u32 %s4, %s4, %smem;"
        if self.e_bytes:
            yield f"add.u32 %s5, %s4, {self.b_bytes}; and.b32 %s6, %thread, 127; shl.b32 %s6, %s6, 2;"
            yield "add.u32 %s5, %s5, %s6;"
            room = max(self.e_bytes // self.warpgroups // 4, 1)
            yield from (
                f"ld.shared.b32 %e{i}, [%s5+{i * room % max(self.e_bytes - 512, 4) // 4 * 4}];" for i in range(4)
            )
            # What a GPU multiplies with is well formed whatever was loaded: zeros would be no metadata.
            yield from (f"or.b32 %e{i}, %e{i}, 0xeeeeeeee;" for i in range(4))
        high = 1 << 62 | (1024 >> 4) << 32 | 1 << 16
        for letter, base, atoms in (("A", "%s3", 1), ("B", "%s4", 2 if self.sparse else 1)):
            for step in range(4):
                on = step * K_BYTES * atoms
                offset = on // 128 * self.n * 128 + on % 128
                yield f"add.u32 %x2, {base}, {offset}; shr.u32 %x2, %x2, 4; and.b32 %x2, %x2, 0x3fff;"
                yield f"cvt.u64.u32 %{letter}{step}, %x2; or.b64 %{letter}{step}, %{letter}{step}, {high:#x};"
        yield "wgmma.fence.sync.aligned;"
        for step in range(4):
            yield stream.instruction(step).replace("%e,", f"%e{step},")
        yield f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {self.pending};"
        # The stage before this one (or this one) is free.
        yield f"mov.u32 %s13, {'%s10' if self.pending else '%stage'}; mov.u32 %s10, %stage;"
        yield f"shl.b32 %s13, %s13, 3; add.u32 %s13, %s13, %smem; add.u32 %s13, %s13, {empty};"
        yield "mov.pred %q3, %q5;"
        if self.pending:
            yield "setp.eq.or.u32 %q3, %n, 0, %q5;"
        for cta in range(self.multicast):
            if self.multicast > 1:
                yield f"mapa.shared::cluster.u32 %s15, %s13, {cta};"
                scope = ".release.cluster" if self.scope == "cluster" else ""
                yield f"@!%q3 mbarrier.arrive{scope}.shared::cluster.b64 _, [%s15];"
            else:
                yield "@!%q3 mbarrier.arrive.shared.b64 _, [%s13];"
        yield f"add.u32 %stage, %stage, 1; setp.eq.u32 %q4, %stage, {self.stages}; @%q4 mov.u32 %stage, 0;"
        yield "@%q4 xor.b32 %phase, %phase, 1; add.u32 %n, %n, 1; setp.lt.u32 %more, %n, %loops; @%more bra LOOP;"
        yield "wgmma.wait_group.sync.aligned 0; mov.u64 %t1, %clock64;"
        yield from (
            f"setp.eq.u32 %q0, %d{i}, 0x12345; @%q0 st.global.u32 [%out], %d{i};" for i in range(stream.accumulators)
        )
