"""Random traces for whole runs: nested loops, unlike warps, barriers, guards, addresses that move on, copies."""

from __future__ import annotations

from random import Random

from simulator.chip.tables import POLICIES

_SHAPES = (
    ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, ", %r48, 0"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, ""),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1, ""),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, ""),
)
_CHIPS = {"h100_sxm": "sm_90a", "a100": "sm_80", "rtx4090": "sm_89", "b200": "sm_100a"}
_SORTS = {
    "plain": ("mma", "mma", "alu"),
    "memory": ("mma", "alu", "shared", "shared"),
    "copies": ("mma", "shared", "copy", "copy", "alu"),
    "mixed": ("mma", "alu", "shared", "copy"),
}


def vector(first: int, count: int) -> str:
    """Registers from `first` on."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


class Writer:
    """Writes the lines of one trace."""

    def __init__(self, random: Random, sort: str, barriers: bool) -> None:
        self.random, self.sort, self.barriers = random, sort, barriers

    def body(self, depth: int, budget: int, together: bool) -> list[str]:
        """Instructions and loops; `together`: all warps run it, so that they can meet at barriers."""
        random, lines = self.random, list[str]()
        for _ in range(random.randrange(1, 7)):
            if depth < 3 and budget > 1 and random.random() < 0.25:
                count = random.randrange(1, max(2, min(budget, 60)))
                lines += [f".repeat {count} {{", *self.body(depth + 1, budget // count, together), "}"]
            elif self.barriers and together and random.random() < 0.1:
                lines.append("bar.sync 0;")
            else:
                lines.append(getattr(self, random.choice(_SORTS[self.sort]))())
        return lines

    def mma(self) -> str:
        opcode, a, b, end = self.random.choice(_SHAPES)
        d = 4 * self.random.randrange(6)
        c = self.random.choice([d, d, 4 * self.random.randrange(6)])
        return f"{opcode} {vector(d, 4)}, {vector(40, a)}, {vector(44, b)}, {vector(c, 4)}{end};"

    def alu(self) -> str:
        random = self.random
        d, a, b = random.randrange(24, 28), random.randrange(24, 32), random.randrange(24, 32)
        return random.choice(
            [
                f"mov.u32 %r{d}, {random.randrange(99)};",
                f"add.s32 %r{d}, %r{a}, {random.randrange(9)};",
                f"and.b32 %r{d}, %r{a}, %r{b};",
                f"mad.lo.s32 %r{d}, %r{a}, %r{b}, %r{random.randrange(24, 32)};",
                f"add.s32 %r50, %r50, {random.choice([4, 16, 64, 128])}; and.b32 %r50, %r50, 8188;",
            ]
        )

    def shared(self) -> str:
        random = self.random
        guard, address = random.choice(["", "", "", "@%p1 ", "@!%p1 "]), random.choice(["%r52", "%r52", "%r50"])
        value = 4 * random.randrange(6)
        return random.choice(
            [
                f"{guard}ld.shared.b32 %r{value}, [{address}];",
                f"{guard}st.shared.b32 [{address}], %r{value};",
                f"{guard}st.shared.v4.b32 [%r53], {vector(value, 4)};",
                f"{guard}ld.shared.v4.b32 {vector(value, 4)}, [%r53];",
                f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {vector(40, 4)}, [%r53];",
                f"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {vector(44, 2)}, [%r53];",
                "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r48}, [%r53];",
            ]
        )

    def copy(self) -> str:
        value = self.random.randrange(24)
        return self.random.choice(
            [
                "cp.async.cg.shared.global [%r53], [%rd0], 16;",
                "cp.async.ca.shared.global [%r52], [%rd1], 4;",
                "cp.async.commit_group;",
                f"cp.async.wait_group {self.random.randrange(3)};",
                f"ld.global.b32 %r{value}, [%rd1];",
                f"st.global.b32 [%rd1], %r{value};",
                "cp.async.wait_all;",
            ]
        )


def random_trace(seed: int) -> tuple[str, str, str]:
    """The text of a trace, the config that it is for, and an issue policy."""
    random = Random(seed)
    sort, warps = random.choice(["plain", *_SORTS]), random.choice([1, 2, 4, 5, 8, 8, 12, 16])
    config = random.choice(["h100_sxm", "h100_sxm", *_CHIPS]) if sort in ("plain", "memory") else "h100_sxm"
    writer = Writer(random, sort, random.random() < 0.6)
    head = ["mov.u32 %r60, %laneid;", "shl.b32 %r52, %r60, 2;", "shl.b32 %r53, %r60, 4;", "mov.u32 %r50, 0;"]
    head += ["setp.lt.u32 %p1, %r60, 16;"] if sort != "plain" else []
    text = [".trace 1", f".target {_CHIPS[config]}", f".warps {warps}", ".shared 32768"]
    if sort in ("copies", "mixed"):
        head += ["mul.wide.u32 %rd0, %r60, 16;", "mul.wide.u32 %rd1, %r60, 4;"]
        text.append(".global 65536")
    together = warps == 1 or random.random() < 0.6
    turns = random.choice([1, 3, 40, 200])
    for first, last in [(0, warps - 1)] if together else [(0, warps // 2 - 1), (warps // 2, warps - 1)]:
        count = turns if together else random.choice([1, 3, 40, 200])
        text += [f".warp {first}-{last} {{" if last > first else f".warp {first} {{", *head, f".repeat {count} {{"]
        text += [*writer.body(1, 12, together), "}", *writer.body(1, 30, together), "}"]
    return "\n".join(text) + "\n", config, random.choice(POLICIES)
