"""Loops of what CTAs of a cluster do with each other: arrivals, fences, accesses, copies to several CTAs.

Copies: `Multicast` says all of one; the other functions each give a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from measurements.hopper.kernels import Kernel, loop, mbarriers, wait

DATA = 1024
SCOPES = {"cta": "", "cluster": ".release.cluster", "relaxed": ".relaxed.cluster"}  # of an arrival
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def fence(scope: str) -> Kernel:
    """A fence for the threads of a scope, with no write before it."""
    return Kernel(f"fence_{scope}", 32, tuple(loop([f"fence.acq_rel.{scope};"])))


def open_wait() -> Kernel:
    """A wait for a phase that is complete."""
    body = [wait("%s2", "1", "WAIT")]
    lines = (".reg .b32 %s<8>;", *mbarriers(0, [1]), "mov.u32 %s2, %smem;", *loop(body))
    return Kernel("open_wait", 32, lines)


def arrivals(place: str, scope: str, warps: int = 1) -> Kernel:
    """One thread of each warp arrives at an mbarrier of its own CTA (`place` "own"), the same by an address in the
    cluster ("local"), or of the other CTA of two ("remote"), again and again, and nobody waits."""
    remote = place == "remote"
    where = "shared" if place == "own" else "shared::cluster"
    lines = (
        ".reg .b32 %s<8>;",
        *mbarriers(0, [1 << 19]),
        f"mov.u32 %s3, %smem; xor.b32 %s1, %rank, 1; {'mapa.shared::cluster.u32 %s3, %s3, %s1;' if remote else ''}",
        "setp.ne.u32 %q1, %lane, 0; @%q1 bra ENDED;",
        *loop([f"mbarrier.arrive{SCOPES[scope]}.{where}.b64 _, [%s3];"]),
        f"ENDED: {MEET}",
    )
    ctas = 2 if remote else 1
    return Kernel(f"arrivals_{place}_{scope}_w{warps}", 32 * warps, lines, ctas, ctas)


def ping_pong(place: str, scope: str) -> Kernel:
    """Two warps arrive at each other's mbarrier in turn: "own", "local" and "remote" as in `arrivals`."""
    remote = place == "remote"
    where = "shared" if place == "own" else "shared::cluster"
    arrive = f"mbarrier.arrive{SCOPES[scope]}.{where}.b64 _, [%s3];"
    body = [f"@%q2 {arrive}", wait("%s2", "%phase", "WAIT"), f"@!%q2 {arrive}", "xor.b32 %phase, %phase, 1;"]
    return Kernel(
        f"turns_{place}_{scope}", 64, _turns(remote, [1, 1], (), body), 2 if remote else 1, 2 if remote else 1
    )


def _turns(remote: bool, counts: list[int], begin: tuple[str, ...], body: list[str]) -> tuple[str, ...]:
    """Two warps, each of which waits at its own mbarrier (%s2) and lets the other go on at its (%s3); number 0 begins
    (%q2)."""
    return (
        ".reg .b32 %s<8>, %phase, %me; .reg .b32 %v<4>;",
        *mbarriers(0, counts),
        f"mov.u32 %me, {'%rank' if remote else '%w'}; xor.b32 %s1, %me, 1;",
        "setp.ne.u32 %q1, %lane, 0; @%q1 bra ENDED;",
        *(["setp.gt.u32 %q1, %w, 0; @%q1 bra ENDED;"] if remote else []),
        "shl.b32 %s2, %me, 3; add.u32 %s2, %s2, %smem; shl.b32 %s3, %s1, 3; add.u32 %s3, %s3, %smem;",
        *(["mapa.shared::cluster.u32 %s3, %s3, %s1;"] if remote else []),
        "mov.u32 %phase, 0; setp.eq.u32 %q2, %me, 0;",
        *begin,
        *loop(body),
        f"ENDED: {MEET}",
    )


def sent(bytes_: int, bulk: bool) -> Kernel:
    """Two CTAs send each other bytes in turn: a store of 4, 8 or 16 bytes that completes on an mbarrier (st.async), or
    a bulk copy from shared memory to that of the other."""
    expect = f"mbarrier.arrive.expect_tx.shared.b64 _, [%s2], {bytes_};"
    place = f"add.u32 %s4, %smem, {DATA}; mapa.shared::cluster.u32 %s5, %s4, %s1; mov.u32 %v0, 0; mov.u32 %v1, 0;"
    if bulk:
        send = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
        send += f"[%s5], [%s4], {bytes_}, [%s3];"
    else:
        values = {4: ("b32", "%v0"), 8: ("v2.b32", "{%v0, %v1}"), 16: ("v4.b32", "{%v0, %v1, %v2, %v3}")}[bytes_]
        send = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{values[0]} [%s5], {values[1]}, [%s3];"
    # The next phase is announced before the other is let go on, so that its bytes never come first.
    body = [f"@%q2 {send}", wait("%s2", "%phase", "WAIT"), expect, f"@!%q2 {send}", "xor.b32 %phase, %phase, 1;"]
    lines = _turns(True, [1, 1], (place, "mov.u32 %v2, 0; mov.u32 %v3, 0;", expect), body)
    return Kernel(f"sent_{'bulk' if bulk else 'store'}_{bytes_}", 64, lines, 2, 2)


def chase(remote: bool) -> Kernel:
    """A thread follows pointers in its own shared memory, by an address in the cluster, or in that of another CTA."""
    lines = (
        ".reg .b32 %s<8>;",
        f"xor.b32 %s1, %rank, {int(remote)}; add.u32 %s2, %smem, {DATA}; mapa.shared::cluster.u32 %s3, %s2, %s1;",
        "mapa.shared::cluster.u32 %s4, %s2, %rank; st.shared.b32 [%s2], %s4;",
        MEET,
        "setp.ne.u32 %q1, %thread, 0; @%q1 bra ENDED;",
        *loop(["ld.shared::cluster.b32 %s3, [%s3];"] * 4),
        "setp.eq.u32 %q2, %s3, 1; @%q2 st.global.u32 [%out], %s3;",
        f"ENDED: {MEET}",
    )
    return Kernel(f"chase_{'remote' if remote else 'local'}", 32, lines, 2, 2)


def traffic(what: str, words: int, warps: int, remote: bool) -> Kernel:
    """Each warp loads from ("load") or stores to ("store") shared memory of the other CTA of two, or its own, four
    instructions an iteration, consecutive words of consecutive threads."""
    vector, registers = {1: ("b32", 1), 2: ("v2.b32", 2), 4: ("v4.b32", 4)}[words]
    body = []
    for turn in range(4):
        names = [f"%v{turn * registers + i}" for i in range(registers)]
        group = names[0] if registers == 1 else "{" + ", ".join(names) + "}"
        at = f"[%s3+{turn * 128 * words}]"
        if what == "load":
            body.append(f"ld.volatile.shared::cluster.{vector} {group}, {at};")
        else:
            body.append(f"st.volatile.shared::cluster.{vector} {at}, {group};")
    lines = (
        ".reg .b32 %s<8>, %v<16>;",
        *(f"mov.b32 %v{i}, 0;" for i in range(16)),
        f"xor.b32 %s1, %rank, {int(remote)}; mapa.shared::cluster.u32 %s3, %smem, %s1;",
        f"mad.lo.u32 %s3, %w, {512 * words}, %s3; mad.lo.u32 %s3, %lane, {4 * words}, %s3; add.u32 %s3, %s3, {DATA};",
        MEET,
        *loop(body),
        MEET,
    )
    place = "remote" if remote else "local"
    return Kernel(f"traffic_{what}_{place}_v{words}_w{warps}", 32 * warps, lines, 2, 2)


@dataclass(frozen=True)
class Multicast:
    """A ring of copies that each CTA of a cluster makes for all: a part of `rows` rows of 128 bytes of each stage.

    Attributes:
        size: CTAs of a cluster; `ctas`: of the grid.
    """

    rows: int
    size: int
    stages: int
    ctas: int
    total: int = 8192

    @property
    def name(self) -> str:
        """Of the kernel."""
        return f"multicast_r{self.rows}_m{self.size}_s{self.stages}_c{self.ctas}"

    def kernel(self) -> Kernel:
        """The loop as a kernel; thread 0 of each CTA copies. A CTA gets its bytes no sooner than all have copied, so
        that none is a stage ahead of another."""
        part, size = self.rows // self.size, self.rows * 128
        copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        issue = (
            f"mbarrier.arrive.expect_tx.shared.b64 _, [%s0], {size};",
            f"mad.lo.u32 %s2, %stage, {size}, %smem; mad.lo.u32 %s2, %rank, {part * 128}, %s2;",
            f"add.u32 %s2, %s2, {DATA}; mad.lo.u32 %s3, %rank, {part}, %row;",
            f"{copy} [%s2], [%m0, {{0, %s3}}], [%s0], %mask;",
            f"add.u32 %row, %row, %step; setp.ge.u32 %q3, %row, {self.total - self.rows}; @%q3 mov.u32 %row, 0;",
        )
        turn = (
            f"add.u32 %stage, %stage, 1; setp.eq.u32 %q4, %stage, {self.stages}; @%q4 mov.u32 %stage, 0;",
            "@%q4 xor.b32 %phase, %phase, 1;",
        )
        address = "shl.b32 %s0, %stage, 3; add.u32 %s0, %s0, %smem;"
        begin = ["mov.u32 %stage, 0;"]
        for _ in range(self.stages):
            begin += [address, *issue, turn[0]]
        lines = (
            ".reg .b32 %s<16>, %row, %step, %phase, %stage; .reg .b16 %mask;",
            *mbarriers(0, [1] * self.stages),
            f"mov.u32 %x4, %ctaid.x; div.u32 %x4, %x4, {self.size}; mul.lo.u32 %row, %x4, {self.rows};",
            f"mov.u32 %step, {self.rows * (self.ctas // self.size)}; mov.b16 %mask, {(1 << self.size) - 1};",
            "setp.ne.u32 %q1, %thread, 0; @%q1 bra ENDED;",
            *begin,
            "mov.u32 %phase, 0;",
            *loop([address, wait("%s0", "%phase", "WAIT"), *issue, *turn]),
            "mov.u32 %n, 0;",
            "DRAIN:",
            address,
            wait("%s0", "%phase", "LAST"),
            *turn,
            f"add.u32 %n, %n, 1; setp.lt.u32 %q5, %n, {self.stages}; @%q5 bra DRAIN;",
            f"ENDED: {MEET}",
        )
        maps = ((self.total, 128, part, 128, "128B"),)
        return Kernel(self.name, 32, lines, self.ctas, self.size, (32, 160), maps)
