"""What the kernels of these measurements have in common, as PTX: parameters, the clock, the loop, mbarriers.

Every kernel has the parameters (out, loops, four tensor maps); warp w of CTA c stores the clocks before and behind its
loop, and the cycles of a part of the last iteration, at out[c, w] as three u64. Warps without a loop store zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
RECORD = 24  # bytes of a warp
WARPS = 16  # room for so many warps of a CTA in `out`
SHARED = 227 * 1024
FILL = "// fill"  # begins lines that fill shared memory, which only a GPU needs


@dataclass(frozen=True)
class Kernel:
    """A kernel, and how it is launched.

    Attributes:
        ctas, cluster: of the grid, and of a cluster.
        loops: the two counts of iterations; the difference of their clocks is what is told.
        maps: of each tensor map that it is given (rows, row bytes, box rows, box row bytes, swizzle).
        lines: the body, and declarations of registers besides those that `text` declares.
    """

    name: str
    threads: int
    lines: tuple[str, ...]
    ctas: int = 1
    cluster: int = 1
    loops: tuple[int, int] = (16, 80)
    maps: tuple[tuple[int, int, int, int, str], ...] = ()

    def text(self, *, filled: bool = True) -> str:
        """The kernel in PTX; with or without the lines that fill shared memory."""
        parameters = [".param .u64 out", ".param .u32 loops"]
        parameters += [f".param .align 64 .b8 map{number}[128]" for number in range(4)]
        cluster = f".reqnctapercluster {self.cluster}, 1, 1" if self.cluster > 1 else ""
        lines = [line for line in self.lines if filled or not line.startswith(FILL)]
        maps = range(len(self.maps))
        body = "\n".join((
            ".reg .b64 %t<8>, %out, %m<4>; .reg .b32 %n, %loops, %w, %lane, %thread, %smem, %x<16>, %rank;",
            ".reg .pred %more, %q<8>; ld.param.u64 %out, [out]; ld.param.u32 %loops, [loops];",
            "mov.u32 %thread, %tid.x; shr.u32 %w, %thread, 5; mov.u32 %smem, smem; and.b32 %lane, %thread, 31;",
            "mov.u32 %rank, %cluster_ctarank; mov.u64 %t2, 0; mov.u64 %t0, 0; mov.u64 %t1, 0;",
            *(f"mov.b64 %m{number}, map{number}; cvta.param.u64 %m{number}, %m{number};" for number in maps),
            *lines,
            *_store(),
            "ret;",
        ))  # fmt: skip
        head = f".visible .entry {self.name}({', '.join(parameters)}) .reqntid {self.threads}, 1, 1 {cluster}"
        return f"{head}\n{{\n{body}\n}}\n"


def _store() -> Sequence[str]:
    return (
        "FINISH: setp.ne.u32 %q7, %lane, 0; @%q7 bra DONE;",
        f"mov.u32 %x0, %ctaid.x; mad.lo.u32 %x0, %x0, {WARPS}, %w; mul.wide.u32 %t3, %x0, {RECORD};",
        "add.u64 %t3, %t3, %out; st.global.u64 [%t3], %t0; st.global.u64 [%t3+8], %t1; st.global.u64 [%t3+16], %t2;",
        "DONE:",
    )


def loop(body: Sequence[str], label: str = "LOOP", drain: Sequence[str] = ()) -> tuple[str, ...]:
    """A body between two readings of the clock, `%loops` times; `%n` counts up."""
    return (
        "mov.u64 %t0, %clock64; mov.u32 %n, 0;",
        f"{label}:",
        *body,
        f"add.u32 %n, %n, 1; setp.lt.u32 %more, %n, %loops; @%more bra {label};",
        *drain,
        "mov.u64 %t1, %clock64;",
    )


def fill(first: int, size: int, word: int) -> str:
    """Fills shared memory with one word, by all threads."""
    end = first + size
    return "\n".join((
        FILL,
        f"shl.b32 %x0, %thread, 2; add.u32 %x0, %x0, {first}; add.u32 %x0, %x0, %smem; add.u32 %x2, %smem, {end};",
        f"mov.b32 %x1, {word:#x}; mov.u32 %x3, %ntid.x; shl.b32 %x3, %x3, 2;",
        f"FILL{first}: setp.ge.u32 %q0, %x0, %x2; @%q0 bra FILLED{first}; st.shared.b32 [%x0], %x1;",
        f"add.u32 %x0, %x0, %x3; bra FILL{first}; FILLED{first}:",
    ))  # fmt: skip


def mbarriers(first: int, counts: Sequence[int]) -> tuple[str, ...]:
    """Initialises mbarriers of 8 bytes from `first` on, by thread 0; all CTAs of the cluster wait."""
    return (
        "setp.ne.u32 %q0, %thread, 0; @%q0 bra INITIALISED;",
        *(f"mbarrier.init.shared.b64 [%smem+{first + 8 * i}], {count};" for i, count in enumerate(counts)),
        "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;",
        "INITIALISED: bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    )


def wait(barrier: str, parity: str, label: str) -> str:
    """Waits for a phase of an mbarrier, spinning; `%q6` is its predicate."""
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %q6, [{barrier}], {parity}; @%q6 bra {label}_OVER; "
        f"bra {label}; {label}_OVER:"
    )
