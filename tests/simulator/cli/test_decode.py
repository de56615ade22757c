"""`tcsim decode` of what the instruction descriptor decides, and of what is undefined."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Tcsim = Callable[..., tuple[int, str, str]]
SP = "tcgen05.mma.sp.cta_group::1.kind::{} [%r0], %rd1, %rd2, [%r3], {}, %p0;"
SCALED = "tcgen05.mma.sp.cta_group::1.kind::{}.block_scale [%r0], %rd1, %rd2, [%r3], {}, [%r5], [%r6], %p0;"


@pytest.mark.parametrize(
    ("text", "kind", "k", "pattern", "selectors"),
    [  # PTX ISA 9.0, 9.7.16.2.1 and 9.7.16.10.8
        (SP, "f16", 32, "2:4", [0, 1]),
        (SP, "tf32", 16, "1:2", [0, 1]),
        (SP, "f8f6f4", 64, "2:4", [0]),
        (SP, "i8", 64, "2:4", [0]),
        (SCALED, "mxf8f6f4", 64, "2:4", [0]),
        (SCALED, "mxf4", 128, "4:8 in pairs", [0]),
    ],
)
def test_kinds_of_tcgen05(tcsim: Tcsim, text: str, kind: str, k: int, pattern: str, selectors: list[int]) -> None:
    code, out, _ = tcsim("decode", text.format(kind, "%r4"), "--format", "json")
    facts = json.loads(out)
    assert code == 0
    assert facts["kind"]["k"] == k
    assert (facts["tmem_metadata"]["pattern"], facts["tmem_metadata"]["selectors"]) == (pattern, selectors)
    assert facts["tmem_metadata"]["chunks"] * facts["tmem_metadata"]["chunk_columns"] == k


def test_a_constant_descriptor_is_read(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("decode", SP.format("f16", "0x8400014"))  # 128 x 256, as isa.InstructionDescriptor encodes it
    assert code == 0
    assert "n 256, m 128" in out
    code, out, _ = tcsim("decode", SP.format("f16", "0x8400010"))  # the same for a dense instruction
    assert code == 1
    assert "descriptor is wrong: " in out
    assert "sparse" in out


def test_what_is_undefined_is_no(tcsim: Tcsim) -> None:
    text = (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3}, {%r4,%r5,%r6,%r7}, "
        "{%r8,%r9,%r10,%r11}, {%r0,%r1,%r2,%r3}, %r12, {};"
    )
    code, out, _ = tcsim("decode", text.replace("{};", "2;"))
    assert (code, "selector 2 of 0..1, which no lanes go with" in out) == (1, True)
    assert tcsim("decode", text.replace("{};", "1;"))[0] == 0
    code, out, err = tcsim("decode", " ")
    assert (code, out, "no instruction" in err) == (2, "", True)
