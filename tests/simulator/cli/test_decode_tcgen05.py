"""What `tcsim decode` says of `tcgen05.mma`, and `tcsim where` of a pair of CTAs: targets, copies, selectors, N."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from isa.descriptors.instruction import InstructionDescriptor
from isa.tensor_memory.datapath import LAYOUTS

Tcsim = Callable[..., tuple[int, str, str]]
WS = "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r2], %r3, %p1;"
MX = "tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale [%r1], %rd1, %rd2, [%r2], %r3, [%r4], [%r5], %p1;"
PAIR = "tcgen05.mma.sp.cta_group::2.kind::f16"


def test_decode_names_targets_with_their_suffix(tcsim: Tcsim) -> None:
    assert "since PTX 8.6, sm_100a;" in tcsim("decode", WS)[1]
    four = "{%r1,%r2,%r3,%r4}"
    mma = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {four}, {four}, {{%r1,%r2}}, {four};"
    assert ", sm_80;" in tcsim("decode", mma)[1]


def test_copies_are_those_of_each_m(tcsim: Tcsim) -> None:
    assert "4 copies with M = 32, 2 copies with M = 64\n" in tcsim("decode", WS)[1]
    metadata = json.loads(tcsim("decode", WS, "--format", "json")[1])["tmem_metadata"]
    assert metadata["copies"] == {"32": 4, "64": 2, "128": 1}


def test_selectors_of_mx_kinds_are_taken_as_0(tcsim: Tcsim) -> None:
    assert "selector taken as 0, whatever" in tcsim("decode", MX)[1]
    assert "selector 0 or 1, in bits 0-1" in tcsim("decode", WS)[1]


@pytest.mark.parametrize(("operand", "options"), [("d", ("--col", "3")), ("d", ()), ("e", ()), ("a", ("--col", "7"))])
def test_the_second_half_of_m_is_in_the_second_cta(tcsim: Tcsim, operand: str, options: tuple[str, ...]) -> None:
    asked = ("where", PAIR, "--operand", operand, "--format", "json")
    for m in (256, 128):
        code, out, _ = tcsim(*asked, "--m", m, "--row", m // 2 + 20, *options)
        assert code == 0
        answer, same = json.loads(out), json.loads(tcsim(*asked, "--m", m, "--row", 20, *options)[1])
        first, *others = answer["facts"]
        assert (first["cta_rank"], first["row_of_cta"]) == (1, 20)
        assert f"row {m // 2 + 20} lies in the second CTA's Tensor Memory" in first["text"]
        assert others == same["facts"]
        assert f"[{m // 2 + 20}]" in answer["subject"]
        for none in (m, -1):
            code, _, err = tcsim(*asked, "--m", m, "--row", none, *options)
            assert code == 1
            assert err.endswith(f"has no row {none}; legal: 0 to {m - 1}\n")


def test_what_an_element_of_the_second_cta_is_made_of(tcsim: Tcsim) -> None:
    """Its products are those of that CTA's own row, whose scale factors lie there, too (PTX ISA 9.0, 9.7.16.10.7)."""
    form = ("tcgen05.mma.sp.cta_group::2.kind::mxf8f6f4.block_scale", "--m", 256, "--format", "json")
    mine, same = (json.loads(tcsim("explain", *form, "--d", f"{row},3")[1]) for row in (200, 72))
    assert mine.pop("note").startswith("row 200 lies in the second CTA's Tensor Memory")
    assert mine == same | {"row": 200}
    factor = json.loads(tcsim("where", *form, "--operand", "scale_a", "--row", 200)[1])
    assert factor["facts"][0]["row_of_cta"] == 72
    assert tcsim("explain", *form, "--d", "256,3")[2].endswith("has no row 256; legal: 0 to 255\n")


def test_cutlass_takes_multiples_of_16_with_m_128(tcsim: Tcsim) -> None:
    for m, warned in ((128, True), (64, False)):
        descriptor = InstructionDescriptor("f16", m=m, n=24, a_type="f16", b_type="f16")
        findings = descriptor.validate(kind="f16", cta_group=1, sparse=False, ws=False)
        assert any("CUTLASS wants a multiple of 16" in str(finding) for finding in findings) == warned
    dense = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %p1;"
    assert "N with M = 128: CUTLASS takes multiples of 16 alone (one source)" in tcsim("decode", dense)[1]


def test_layouts_of_one_m_are_told_apart() -> None:
    """Two data path layouts of one M and cta_group have headings that say which instructions they are of."""
    headings = [(layout.m, layout.cta_group, layout.which) for layout in LAYOUTS.values()]
    assert len(set(headings)) == len(LAYOUTS) == 7
    assert {layout.name: layout.which for layout in LAYOUTS.values() if layout.which} == {
        "B": ", dense",
        "C": ", .sp",
        "E": ", .ws",
        "F": ", without .ws",
    }
