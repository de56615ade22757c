"""Loops of bulk tensor copies by one thread of a CTA, and of barriers between warps and CTAs."""

from __future__ import annotations

from dataclasses import dataclass

from measurements.hopper.kernels import Kernel, loop, mbarriers, wait

BARRIERS = 0
DATA = 1024
ROOM = 192 * 1024


@dataclass(frozen=True)
class Copies:
    """A ring of `stages` copies under way, of boxes of `rows` rows of `width` bytes.

    Attributes:
        stores: whether shared memory is stored; `reads`: whether it waits for the reads of stores alone.
        total: rows of the tensor; each CTA begins at its own box, and the next box of a CTA is `ctas` boxes further.
        boxes: copies of an iteration, all on one mbarrier.
        linear: copies without a tensor map, of rows * width bytes.
    """

    rows: int
    width: int
    stages: int = 4
    swizzle: str = "none"
    stores: bool = False
    reads: bool = False
    total: int = 32768
    ctas: int = 1
    boxes: int = 1
    linear: bool = False

    @property
    def name(self) -> str:
        """Of the kernel."""
        kind = ("store_read" if self.reads else "store") if self.stores else "load"
        kind += "_linear" if self.linear else ""
        box = f"r{self.rows}_b{self.width}_s{self.stages}_{self.swizzle}"
        return f"{kind}_{box}_t{self.total}_c{self.ctas}_x{self.boxes}"

    @property
    def size(self) -> int:
        """Bytes of a box in shared memory."""
        return self.rows * self.width

    def kernel(self) -> Kernel:
        """The loop as a kernel; thread 0 of each CTA copies."""
        body, begin = self._stores() if self.stores else self._loads()
        lines = (
            ".reg .b32 %s<16>, %row, %step, %phase, %stage;",
            *mbarriers(BARRIERS, [1] * self.stages),
            f"mov.u32 %x4, %ctaid.x; mul.lo.u32 %row, %x4, {self.rows * self.boxes};",
            f"mov.u32 %step, {self.rows * self.boxes * self.ctas};",
            "setp.ne.u32 %q1, %thread, 0; @%q1 bra ENDED;",
            *begin,
            *loop(body, drain=("cp.async.bulk.wait_group 0;",) if self.stores else ()),
            *([] if self.stores else self._drain()),
            "ENDED:",
        )
        boxes = (self.total, self.width, self.rows, self.width, self.swizzle)
        maps = ((self.total, 128, 8, 128, "none"),) if self.linear else (boxes,)
        return Kernel(self.name, 32, lines, self.ctas, 1, (32, 160), maps)

    def _issue(self, stage: str, barrier: str) -> list[str]:
        lines = [f"mbarrier.arrive.expect_tx.shared.b64 _, [{barrier}], {self.size * self.boxes};"]
        for box in range(self.boxes):
            lines.append(
                f"mad.lo.u32 %s2, {stage}, {self.size * self.boxes}, %smem; add.u32 %s2, %s2, {DATA + box * self.size};"
            )
            lines.append(f"add.u32 %s3, %row, {box * self.rows};")
            if self.linear:
                copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                lines.append(f"mul.wide.u32 %t3, %s3, {self.width}; ld.param.u64 %t4, [out]; add.u64 %t3, %t3, %t4;")
                lines.append(f"{copy} [%s2], [%t3], {self.size}, [{barrier}];")
                continue
            copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            lines.append(f"{copy} [%s2], [%m0, {{0, %s3}}], [{barrier}];")
        lines.append(f"add.u32 %row, %row, %step; setp.ge.u32 %q3, %row, {self.total - self.rows * self.boxes};")
        lines.append("@%q3 mov.u32 %row, 0;")
        return lines

    def _loads(self) -> tuple[list[str], list[str]]:
        begin = ["mov.u32 %stage, 0; mov.u32 %phase, 0;"]
        for stage in range(self.stages):
            begin += [f"add.u32 %s0, %smem, {BARRIERS + 8 * stage}; mov.u32 %s1, {stage};", *self._issue("%s1", "%s0")]
        body = [
            "shl.b32 %s0, %stage, 3; add.u32 %s0, %s0, %smem;",
            wait("%s0", "%phase", "WAIT"),
        ]
        body += self._issue("%stage", "%s0")
        body.append(f"add.u32 %stage, %stage, 1; setp.eq.u32 %q4, %stage, {self.stages}; @%q4 mov.u32 %stage, 0;")
        body.append("@%q4 xor.b32 %phase, %phase, 1;")
        return body, begin

    def _drain(self) -> list[str]:
        """Waits for the copies of all stages that are still under way."""
        lines = ["mov.u32 %n, 0;", "DRAIN:", "shl.b32 %s0, %stage, 3; add.u32 %s0, %s0, %smem;"]
        lines.append(wait("%s0", "%phase", "LAST"))
        lines.append(f"add.u32 %stage, %stage, 1; setp.eq.u32 %q4, %stage, {self.stages}; @%q4 mov.u32 %stage, 0;")
        lines.append("@%q4 xor.b32 %phase, %phase, 1;")
        lines.append(f"add.u32 %n, %n, 1; setp.lt.u32 %q5, %n, {self.stages}; @%q5 bra DRAIN;")
        return lines

    def _stores(self) -> tuple[list[str], list[str]]:
        body = []
        for box in range(self.boxes):
            body.append(
                f"mad.lo.u32 %s2, %stage, {self.size * self.boxes}, %smem; add.u32 %s2, %s2, {DATA + box * self.size};"
            )
            body.append(f"add.u32 %s3, %row, {box * self.rows};")
            body.append("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m0, {0, %s3}], [%s2];")
        body.append("cp.async.bulk.commit_group;")
        body.append(f"cp.async.bulk.wait_group{'.read' if self.reads else ''} {self.stages - 1};")
        body.append(f"add.u32 %row, %row, %step; setp.ge.u32 %q3, %row, {self.total - self.rows * self.boxes};")
        body.append("@%q3 mov.u32 %row, 0;")
        body.append(f"add.u32 %stage, %stage, 1; setp.eq.u32 %q4, %stage, {self.stages}; @%q4 mov.u32 %stage, 0;")
        return body, ["mov.u32 %stage, 0;"]


def cluster_barrier(size: int, warps: int, ctas: int, *, relaxed: bool = False) -> Kernel:
    """All threads of a cluster meet, again and again; relaxed: nothing that they have written is ordered."""
    body = [f"barrier.cluster.arrive{'.relaxed' * relaxed}.aligned;", "barrier.cluster.wait.aligned;"]
    return Kernel(
        f"cluster_barrier{'_relaxed' * relaxed}_{size}_w{warps}_c{ctas}", 32 * warps, tuple(loop(body)), ctas, size
    )


def ping_pong(remote: bool) -> Kernel:
    """Two warps (of one CTA, or each the first of its CTA in a cluster of two) arrive at each other's mbarrier in
    turn."""
    lines = [
        ".reg .b32 %s<8>, %phase, %me;",
        *mbarriers(BARRIERS, [1, 1]),
        f"mov.u32 %me, {'%rank' if remote else '%w'}; xor.b32 %s1, %me, 1;",
        "mov.u32 %x4, 0; setp.ne.u32 %q1, %lane, 0; @%q1 bra ENDED;",
        *(["setp.gt.u32 %q1, %w, 0; @%q1 bra ENDED;"] if remote else []),
        # Each waits at its own mbarrier and arrives at the other's; number 0 begins.
        "shl.b32 %s2, %me, 3; add.u32 %s2, %s2, %smem; shl.b32 %s3, %s1, 3; add.u32 %s3, %s3, %smem;",
        *(["mapa.shared::cluster.u32 %s3, %s3, %s1;"] if remote else []),
        "mov.u32 %phase, 0; setp.eq.u32 %q2, %me, 0;",
        *loop(
            [
                "@%q2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%s3];",
                wait("%s2", "%phase", "WAIT"),
                "@!%q2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%s3];",
                "xor.b32 %phase, %phase, 1;",
            ]
        ),
        "ENDED: barrier.cluster.arrive; barrier.cluster.wait;",
    ]
    return Kernel(
        f"ping_pong_{'remote' if remote else 'local'}", 64, tuple(lines), 2 if remote else 1, 2 if remote else 1
    )


def own_arrival(transactions: bool) -> Kernel:
    """A warp arrives at an mbarrier of one arrival and waits for it; with a copy of no bytes expected or not."""
    arrive = (
        "mbarrier.arrive.expect_tx.shared.b64 _, [%s2], 0;" if transactions else "mbarrier.arrive.shared.b64 _, [%s2];"
    )
    lines = [
        ".reg .b32 %s<8>, %phase;",
        *mbarriers(BARRIERS, [1]),
        "mov.u32 %s2, %smem; mov.u32 %phase, 0; setp.ne.u32 %q1, %thread, 0; @%q1 bra ENDED;",
        *loop([arrive, wait("%s2", "%phase", "WAIT"), "xor.b32 %phase, %phase, 1;"]),
        "ENDED:",
    ]
    return Kernel(f"own_arrival{'_expect' if transactions else ''}", 32, tuple(lines))
