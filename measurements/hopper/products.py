"""Loops of wgmma on operands that stay in shared memory (or A in registers): `Stream` says all of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from measurements.hopper.kernels import Kernel, fill, loop

A_AT, B_AT, B_ATOM = 0, 32768, 32768  # A: 8 KB a warpgroup; B: 256 rows of 128 bytes, for two steps of 128 bytes
SHARED = B_AT + 2 * B_ATOM
K_BYTES = 32  # of an instruction in A as stored
TYPES = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}  # of A and B: bits
SWIZZLES = {"128B": 1, "64B": 2, "32B": 3, "none": 0}


@dataclass(frozen=True)
class Stream:
    """A loop of groups of wgmma.

    Attributes:
        kind: type of A and B; `d`: of the accumulators.
        warpgroups: of the CTA, each with its own A and one B for all.
        unrolled: instructions of a group; `pending`: groups that may be under way behind the wait.
        registers: whether A comes from registers.
        chains: accumulator tiles that the instructions of a group take in turn.
        swizzle: of A and B; `major`: "kk", or with "m" and "n" where a matrix is transposed.
        issue: whether the clock is read behind the commit, too.
    """

    kind: str
    n: int
    d: str = "f32"
    sparse: bool = False
    registers: bool = False
    warpgroups: int = 1
    unrolled: int = 4
    pending: int = 1
    chains: int = 1
    swizzle: str = "128B"
    major: str = "kk"
    issue: bool = False

    @property
    def name(self) -> str:
        """Of the kernel."""
        parts = [
            "sp" if self.sparse else "dense", self.kind, self.d, f"n{self.n}", "rs" if self.registers else "ss",
            f"w{self.warpgroups}", f"u{self.unrolled}", f"p{self.pending}", f"c{self.chains}",
            f"s{self.swizzle}", self.major, *(["issue"] if self.issue else []),
        ]  # fmt: skip
        return "_".join(parts)

    @property
    def k(self) -> int:
        """K of an instruction."""
        return 256 // TYPES[self.kind] * (2 if self.sparse else 1)

    @property
    def accumulators(self) -> int:
        """Registers of a tile of accumulators."""
        return self.n // (4 if self.d == "f16" else 2)

    def kernel(self) -> Kernel:
        """The loop as a kernel."""
        registers = self.accumulators * self.chains
        body = ["wgmma.fence.sync.aligned;"]
        body += [self.instruction(i) for i in range(self.unrolled)]
        body.append("wgmma.commit_group.sync.aligned;")
        if self.issue:
            body += ["mov.u64 %t5, %clock64;"]
        body.append(f"wgmma.wait_group.sync.aligned {self.pending};")
        if self.issue:
            body += ["mov.u64 %t6, %clock64; sub.u64 %t2, %t5, %t0;"]
        lines = (
            f".reg .b32 %d<{registers}>, %a<4>, %e; .reg .b64 %A<8>, %B<8>;",
            *self.contents(),
            *(f"mov.b32 %d{i}, 0;" for i in range(registers)),
            *self._descriptors(),
            "fence.proxy.async; bar.sync 0;",
            *loop(body, drain=("wgmma.wait_group.sync.aligned 0;",)),
            *(f"setp.eq.u32 %q0, %d{i}, 0x12345; @%q0 st.global.u32 [%out], %d{i};" for i in range(registers)),
        )
        return Kernel(self.name, 128 * self.warpgroups, lines)

    def contents(self) -> Sequence[str]:
        """Lines that fill shared memory, metadata and A in registers: with zeros, and metadata that are legal."""
        return (
            fill(A_AT, SHARED, 0),
            f"bar.sync 0; mov.b32 %e, {0xEEEEEEEE if self.kind != 'tf32' else 0x44444444:#x};",
            *(f"mov.b32 %a{i}, 0;" for i in range(4)),
        )

    def sign(self, number: int) -> int:
        """Of A in an instruction of a group."""
        return 1

    def instruction(self, number: int) -> str:
        """The text of one of a group."""
        tile, step = number % self.chains * self.accumulators, number % 4
        d = "{" + ", ".join(f"%d{tile + i}" for i in range(self.accumulators)) + "}"
        a = "{%a0, %a1, %a2, %a3}" if self.registers else f"%A{step}"
        sparse = ".sp" if self.sparse else ""
        meta = f" %e, {number % (1 if TYPES[self.kind] == 8 else 2)}," if self.sparse else ""
        integer = self.kind in ("s8", "u8")
        scales = "" if integer else f", {self.sign(number)}, 1"
        if self.kind in ("f16", "bf16"):
            flags = ("" if self.registers else f", {int(self.major[0] == 'm')}") + f", {int(self.major[1] == 'n')}"
        else:
            flags = ""
        types = f"{self.d}.{self.kind}.{self.kind}"
        name = f"wgmma.mma_async{sparse}.sync.aligned.m64n{self.n}k{self.k}.{types}"
        return f"{name} {d}, {a}, %B{step},{meta} 1{scales}{flags};"

    def _descriptors(self) -> Iterator[str]:
        """Of A and B for four steps along K: rows of the swizzle's width, atoms of 8 rows."""
        width = {"128B": 128, "64B": 64, "32B": 32, "none": 16}[self.swizzle]
        for letter, base, atoms in (("A", A_AT, 1), ("B", B_AT, 2 if self.sparse else 1)):
            major = self.major[0 if letter == "A" else 1]
            yield f"add.u32 %x0, %smem, {base};"
            if letter == "A":
                yield "shr.u32 %x1, %w, 2; shl.b32 %x1, %x1, 13; add.u32 %x0, %x0, %x1;"
            rows = 64 if letter == "A" else self.n
            for step in range(4):
                bytes_on = step * K_BYTES * atoms
                if major != "k":  # rows along M or N: each step some rows of K further
                    offset, leading, stride = 2048 * step * atoms, 8192 // atoms, 1024
                elif self.swizzle == "none":
                    offset, leading, stride = 2 * rows * 16 * step * atoms % (B_ATOM * 2), rows * 16, 128
                else:
                    offset, leading, stride = bytes_on // width * rows * width + bytes_on % width, 16, 8 * width
                words = [f"add.u32 %x2, %x0, {offset};", "shr.u32 %x2, %x2, 4; and.b32 %x2, %x2, 0x3fff;"]
                high = SWIZZLES[self.swizzle] << 62 | stride >> 4 << 32 | leading >> 4 << 16
                words += [f"cvt.u64.u32 %{letter}{step}, %x2; or.b64 %{letter}{step}, %{letter}{step}, {high:#x};"]
                yield " ".join(words)
