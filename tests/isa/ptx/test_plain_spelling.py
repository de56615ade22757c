"""The short way of the decoder gives what the long way gives."""

from __future__ import annotations

import random
from importlib import import_module

import pytest

import isa
from isa.forms.table import plain_forms
from tests.isa.ptx.test_decoder import FORMS, mutated
from tests.support.cases import alike, over
from tests.support.row_texts import legal_text

decoder = import_module("isa.ptx.decoder")


def verdict(text: str, ptx: str) -> object:
    try:
        return isa.decode(text, ptx=ptx)
    except isa.IsaError as error:
        return str(error)


@over("seed", range(16), distinct=alike)
def test_both_ways_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On legal texts, mutated ones and odd spaces of some of all forms."""
    generator = random.Random(seed)
    texts = []
    for form in generator.sample(list(FORMS.values()), 200):
        text = legal_text(form, generator.randrange)
        spaced = text.replace(", ", generator.choice((",", " ,  ")))
        texts += [(variant, form.since_ptx) for variant in (text, mutated(text, generator), spaced)]
    for text, ptx in texts:
        verdict(text, ptx)  # every legal opcode is remembered now
    short = [verdict(text, ptx) for text, ptx in texts]
    monkeypatch.setattr(decoder, "_plans", {})
    monkeypatch.setattr(decoder, "_remember", lambda *_: None)
    assert short == [verdict(text, ptx) for text, ptx in texts]


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an opcode is known, plain spellings do not reach the cursor."""
    text = legal_text(isa.mma_form("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"), lambda n: 0)
    first = isa.decode(text)
    monkeypatch.setattr(decoder, "Cursor", None)
    assert isa.decode(text) == first


def test_special_registers_go_the_long_way() -> None:
    assert plain_forms()["mov.u32"].roles[1].special
    mma = (
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %laneid}, {%r0, %r1}, {%r0}, {%r0, "
        "%r1, %r2, %r3};"
    )
    for text in ("add.s32 %r0, %laneid, 1;", "ld.shared.b32 %laneid, [%r1];", mma):
        isa.decode(text.replace("%laneid", "%r7"))
        with pytest.raises(isa.IsaError, match="special register"):
            isa.decode(text)
