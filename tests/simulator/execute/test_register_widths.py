"""Operands whose registers may have another width than the operand, as ptxas 13.0 takes them: scale ids of `.b16`
registers (it refuses 32 and 64 bits), addresses of 16, 32 and 64 bits. Each is read from the file of its own width."""

from __future__ import annotations

import numpy as np

import simulator
from tests.support.cases import over

HEAD = ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 D) {{\n"
DENSE = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
OPERANDS = {
    DENSE: "{%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f0,%f1,%f2,%f3}",
    SPARSE: "{%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, {%f0,%f1,%f2,%f3}, %r5, 0",
}
IDS = {  # byte-id and thread-id of A and B: 1, 0 and 2, 1
    "constants": ("1, 0", "2, 1"),
    "b16": ("%rs1, %rs0", "%rs2, %rs1"),
    "b16 and constants": ("%rs1, 0", "2, %rs1"),
    "b32": ("%r7, %r8", "%r9, %r7"),  # refused by ptxas; traces have it
    "b64": ("%rd7, %rd8", "%rd9, %rd7"),
}


def product(opcode: str, ids: str) -> str:
    """A kernel that writes D of one instruction; the 32-bit and 64-bit registers of the same numbers hold other ids."""
    a, b = IDS[ids]
    low, wide = ("3, 2, 0", "7, 8, 9") if ids != "b32" else ("1, 0, 2", "7, 8, 9")
    words = "".join(f"mov.u32 %r{n}, {v};" for n, v in zip((7, 8, 9), low.split(", "), strict=True))
    longs = "".join(f"mov.u64 %rd{n}, {v};" for n, v in zip(wide.split(", "), ("1", "0", "2"), strict=True))
    return (
        HEAD.format(target="sm_120a")
        + ".reg .b32 %r<12>; .reg .b16 %rs<4>; .reg .f32 %f<8>; .reg .b64 %rd<12>;\n"
        + "mov.u32 %r1, 0x38383838; mov.u32 %r2, 0x7f827f7f; mov.u32 %r3, 0x83828180; mov.u32 %r5, 0x44444444;"
        + "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;"
        + f"mov.b16 %rs0, 0; mov.b16 %rs1, 1; mov.b16 %rs2, 2; {words}{longs}\n"
        + f"{opcode} {OPERANDS[opcode]}, {{%r3}}, {{{a}}}, {{%r2}}, {{{b}}};\n"
        + "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [D]; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd0, %rd0, %rd1;"
        + "st.global.v4.f32 [%rd0], {%f0,%f1,%f2,%f3}; ret;\n}\n"
    )


@over("opcode", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_scale_ids_in_registers_of_every_width(opcode: str) -> None:
    """1 * 1 over 32 products, times 2^2 (0x81 of A) and 2^3 (0x82 of B), whatever holds the ids."""
    for ids in IDS:
        d = np.zeros((32, 4), np.float32)
        report = simulator.Module(product(opcode, ids)).get_function("k")(1, 32, (d,))
        assert (d == 32 * 2.0**2 * 2.0**3).all(), ids
        assert not report.undefined


@over("register", ["%rs1", "%r1", "%rd1"])
def test_addresses_in_registers_of_every_width(register: str) -> None:
    """Shared memory through 16, 32 and 64 bits; the other files hold another address under the same number."""
    moves = "".join(
        f"mov.{kind} {name}, {64 if name == register else 0};"
        for name, kind in (("%rs1", "b16"), ("%r1", "b32"), ("%rd1", "b64"))
    )
    text = (
        HEAD.format(target="sm_90a") + ".reg .b32 %r<12>; .reg .b16 %rs<4>; .reg .b64 %rd<12>;\n"
        ".shared .align 16 .b8 place[256];\n"
        f"{moves} mov.u32 %r2, 7; mov.u32 %r5, 64; st.shared.u32 [%r5], %r2; ld.shared.u32 %r3, [{register}];"
        f"add.u32 %r3, %r3, 5; st.shared.u32 [{register}], %r3; atom.shared.add.u32 %r4, [%r5], 0;"
        "ld.param.u64 %rd0, [D]; st.global.v2.u32 [%rd0], {%r3, %r4}; ret;\n}\n"
    )
    out = np.zeros(2, np.uint32)
    simulator.Module(text).get_function("k")(1, 1, (out,))
    assert out.tolist() == [12, 12]


BEYOND = {  # body -> what lane 0 has in %r2
    "st.shared.b128 [place], -1; ld.shared.u32 %r2, [place+4];": 0xFFFFFFFF,
    "st.shared.b128 [place], -1; ld.shared.u32 %r2, [place+8];": 0,
    "ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%rd2];": 77,
    "stmatrix.sync.aligned.m8n8.x2.b16 [%rd2], {%r1, 7}; ld.shared.u32 %r2, [place];": 7,
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%smid];": 77,
    "cp.async.ca.shared.global [place], [%rd0], 4, %p1; cp.async.wait_group 0; ld.shared.u32 %r2, [place];": 0,
    "cp.async.ca.shared.global [place], [%rd0], 4, !%p1; cp.async.wait_group 0; ld.shared.u32 %r2, [place];": 9,
    "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %p1;": 0xFFFFFFFF,
    "cvt.pack.sat.u16.s32 %rd3, 5, 6; cvt.u32.u64 %r2, %rd3;": 5 << 16 | 6,
    "add.rn.bf16x2 %r2, {%r1, %r3}, %r3;": 77,
    "atom.shared.or.b32 %r3, [place], %r1, %r1; ld.shared.u32 %r2, [place];": 77,
}


def test_what_ptxas_takes_beyond_ptx() -> None:
    """Generic addresses of matrices, constants of b128 and in vectors, predicates as values, registers that are
    dropped: as the machine code of ptxas 13.0 has them (November 2026)."""
    for body, expected in BEYOND.items():
        text = (
            HEAD.format(target="sm_90a") + ".reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"
            ".shared .align 128 .b8 place[64];\nld.param.u64 %rd0, [D]; setp.eq.u32 %p1, %r3, %r3; mov.u32 %r1, 77;"
            "mov.u64 %rd1, place; cvta.shared.u64 %rd2, %rd1; st.shared.u32 [place], %r1;"
            f"{body}\nmov.u32 %r7, %tid.x; setp.eq.u32 %p0, %r7, 0; @%p0 st.global.u32 [%rd0], %r2; ret;\n}}\n"
        )
        out = np.array([9], np.uint32)
        simulator.Module(text).get_function("k")(1, 32, (out,))
        assert out[0] == expected, body
