"""Timing programs for the instructions of which emulated forms are made: conversions, selects, shuffles, permutes,
float additions.

Chains (one register, each instruction needs the one before), streams (eight registers), streams of two kinds in turn,
and beside matrix instructions. They are the group `operation` of `measure_loops.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import programs as p

KINDS: dict[str, str] = {
    # label: what advances register {d} by one instruction; %r40.. hold runtime operands
    "F2FP.UNPACK": "{{ .reg .b16 l, h; mov.b32 {{l, h}}, %r{d}; cvt.rn.f16x2.e4m3x2 %r{d}, l; }}",
    "F2FP.UNPACK.H1": "{{ .reg .b16 l, h; mov.b32 {{l, h}}, %r{d}; cvt.rn.f16x2.e4m3x2 %r{d}, h; }}",
    "SHFL.IDX": "shfl.sync.idx.b32 %r{d}, %r{d}, %r{p}, 0x1f, -1;",
    "SHFL.UP": "shfl.sync.up.b32 %r{d}, %r{d}, 1, 0, -1;",
    "SHFL.DOWN": "shfl.sync.down.b32 %r{d}, %r{d}, 1, 0x1f, -1;",
    "PRMT": "prmt.b32 %r{d}, %r{d}, %r{p}, %r{q};",
    "SEL": "{{ .reg .pred s; setp.ne.s32 s, %r{s}, 0; selp.b32 %r{d}, %r{d}, %r{p}, s; }}",
    "FADD": "add.f32 %r{d}, %r{d}, %r{p};",
    "HADD2": "add.f16x2 %r{d}, %r{d}, %r{p};",
    "IMAD.SHL": "{{ .reg .b32 t; lop3.b32 t, %r{d}, %r{p}, %r{q}, 0x6a; shl.b32 %r{d}, t, 4; }}",
    "LOP3": "lop3.b32 %r{d}, %r{d}, %r{p}, %r{q}, 0x6a;",
    "IMAD": "mad.lo.s32 %r{d}, %r{d}, %r{p}, %r{q};",
}
PAIRS = (
    ("LOP3", "IMAD"),
    ("LOP3", "FADD"),
    ("F2FP.UNPACK", "FADD"),
    ("F2FP.UNPACK", "LOP3"),
    ("F2FP.UNPACK", "IMAD"),
    ("IMAD", "FADD"),
    ("SHFL.IDX", "LOP3"),
    ("SHFL.IDX", "F2FP.UNPACK"),
    ("HADD2", "LOP3"),
    ("HADD2", "FADD"),
    ("SEL", "LOP3"),
    ("SEL", "FADD"),
    ("PRMT", "IMAD"),
)
BESIDE = {
    "F2FP.UNPACK": (1, 2, 3, 4),
    "FADD": (1, 2, 4),
    "HADD2": (2,),
    "LOP3": (2, 3),
    "IMAD": (2,),
    "SHFL.IDX": (1, 2, 4),
}
WARPS = (1, 4, 8, 16, 32)


def _text(kind: str, d: int, i: int) -> str:
    return KINDS[kind].format(d=d, p=40 + 2 * i % 8, q=41 + 2 * i % 8, s=50 + i % 4)


def _program(kinds: tuple[str, ...], chains: int, chain: str = "") -> p.Program:
    body = [_text(kinds[i % len(kinds)], i % chains, i // chains) for i in range(96)]
    initial = {r: p.lanes(3 + r) for r in range(40, 48)} | {r: p.lanes(r % 2) for r in range(50, 54)}
    name = "_".join(kinds).lower().replace(".", "")
    return p.Program(
        f"operation_{name}_c{chains}",
        "operation",
        " + ".join(kinds),
        96,
        (p.Part(tuple(body)),),
        tuple(range(chains)),
        initial,
        labels={"chains": chains},
        warps=WARPS,
    )


def _beside(kind: str, each: int, form: p.Form) -> p.Program:
    """`each` instructions of a kind on registers of their own for each matrix instruction, of eight accumulators."""
    body: list[str] = []
    for i in range(24):
        body.append(form.text(60 + 4 * (i % 8), 100, 104, 60 + 4 * (i % 8), 108))
        body += [_text(kind, 8 + (i * each + j) % 12, i) for j in range(each)]
    initial = {r: p.lanes(p.DATA) for r in range(100, 108)} | {108: p.lanes(p.ONE_E)}
    initial |= {r: p.lanes(3 + r) for r in range(40, 48)} | {r: p.lanes(r % 2) for r in range(50, 54)}
    return p.Program(
        f"operation_{kind.lower().replace('.', '')}_x{each}_{form.name}",
        "operation",
        f"{form.opcode} + {each} {kind}",
        24,
        (p.Part(tuple(body)),),
        (*range(8, 20), *range(60, 92)),
        initial,
        labels={"chains": 8},
        warps=WARPS,
    )


def operation_programs() -> Iterator[p.Program]:
    for kind in KINDS:
        for chains in (1, 2, 8):
            yield _program((kind,), chains)
    for pair in PAIRS:
        yield _program(pair, 8)
        yield _program(pair, 1)
        yield _program(pair, 9)
    for form in (p.SPARSE_FULL, p.DENSE_SMALL, p.DENSE_FULL, p.Form(16, 8, 8, "f16", "f16", "f16")):
        for kind, counts in BESIDE.items():
            for each in counts:
                yield _beside(kind, each, form)
