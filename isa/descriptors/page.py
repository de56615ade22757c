"""Writes the page docs/descriptors.md from the tables of bit fields: `python -m isa.descriptors.page`."""

from __future__ import annotations

from isa.descriptors.fields import FAMILIES, table_markdown
from isa.descriptors.instruction import KINDS, legal_m, legal_n, steps
from isa.descriptors.zero_column_mask import mask_markdown
from isa.shared_memory.descriptor import smem_markdown
from isa.shared_memory.hopper import wgmma_markdown


def shapes_markdown() -> str:
    """The legal M and N of every kind."""
    lines = ["| kind | form | cta_group | M | N |", "| --- | --- | --- | --- | --- |"]
    for kind in KINDS:
        for ws, sparse, cta_group in ((w, s, c) for w in (False, True) for s in (False, True) for c in (1, 2)):
            m, n = (legal(kind, cta_group=cta_group, sparse=sparse, ws=ws) for legal in (legal_m, legal_n))
            if m and n:
                form = ".mma" + ".ws" * ws + ".sp" * sparse
                lines.append(f"| {kind} | `{form}` | {cta_group} | {' '.join(map(str, m))} | {steps(n)} |")
    return "\n".join(lines)


def markdown() -> str:
    """The text of docs/descriptors.md."""
    parts = [_INTRODUCTION]
    for kinds, number in ((("f16", "tf32", "f8f6f4", "i8"), 42), (("mxf8f6f4",), 43), (("mxf4", "mxf4nvf4"), 44)):
        parts += [
            f"### Kinds {', '.join(kinds)}",
            f"PTX ISA 9.0, 9.7.16.4.2, table {number}.",
            table_markdown(FAMILIES[kinds[0]]),
        ]
    parts += [_RULES, shapes_markdown(), smem_markdown(), wgmma_markdown(), mask_markdown()]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """# Descriptors of tcgen05 and wgmma

This page is generated: `python -m isa.descriptors.page > docs/descriptors.md`.

`tcgen05.mma` takes its shape, its types and the layout of its operands from descriptors in registers. ptxas checks
none of them, not even constants. `isa.descriptors.instruction`, `isa.shared_memory.descriptor`,
`isa.shared_memory.hopper` and `isa.descriptors.zero_column_mask` hold them as values: `decode` reads a word, `encode` writes it, `str()` explains
every field, `validate` lists everything that is wrong (illegal, undefined, or a warning where some source is stricter
than PTX), `check` raises `IsaError` with the list. Reserved bits that are set are kept and reported.

```python
>>> from isa.descriptors.instruction import InstructionDescriptor
>>> idesc = InstructionDescriptor("f16", m=128, n=256, a_type="bf16", b_type="bf16", sparse=True, selector=1)
>>> hex(idesc.encode())
'0x8400495'
>>> for finding in InstructionDescriptor.decode(0x8400496, "f16").validate(target="sm_100a"):
...     print(finding)
undefined: selector (bits 0-1): sparsity selector 2 has no known meaning (inferred: PTX's table says 0-3); right: 0 or 1 (PTX ISA 9.0, 9.7.16.10.8.4)

```

## Instruction descriptor

32 bits. `.kind::f16` and `.kind::tf32` compile to the same machine code, so that hardware cannot see a word of one
kind in an instruction of the other."""  # noqa: E501 - a line that a program prints

_RULES = """### Legal M and N

By PTX's table (9.7.16.2.1). Others are stricter, which `validate` reports as warnings (one source each): for sparse
f8f6f4 CUTLASS wants N in multiples of 16 with M = 128 and of 32 with cta_group::2, for i8 it does without N = 24; JAX
takes sparse N in multiples of 16 only. Of dense f16, tf32 and f8f6f4 CUTLASS asserts multiples of 16 with M = 128 and
cta_group::1. 8-bit B transposed needs N in multiples of 16 (cta_group::1) or 32
(cta_group::2)."""


if __name__ == "__main__":
    print(markdown(), end="")
