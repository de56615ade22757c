"""The instruction set: text, legality, encodings, and where every element lives. No chip, no time, no state.

>>> import isa
>>> ins = isa.decode("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4, %r5}, {%r0, %r1}, %r6, 2;")
>>> ins.form.a.shape, ins.selector
((16, 8), 2)
"""

from isa.errors import Error, IsaError, UndefinedBehavior
from isa.forms.mma import MmaForm, mma_form, mma_forms
from isa.fragments.metadata import (
    FOUR_OF_EIGHT,
    ONE_OF_TWO,
    TWO_OF_FOUR,
    Metadata,
    Sparsity,
    sparsity_of,
    stored_columns,
)
from isa.fragments.sparsity import compress, expand, is_zero, prune
from isa.ptx.decoder import decode
from isa.ptx.instruction import Instruction
from isa.targets import Target, parse_target
from isa.types import ELEMENT_TYPES, ElementType, element_type, pack, unpack

__all__ = [
    "ELEMENT_TYPES",
    "FOUR_OF_EIGHT",
    "ONE_OF_TWO",
    "TWO_OF_FOUR",
    "ElementType",
    "Error",
    "Instruction",
    "IsaError",
    "Metadata",
    "MmaForm",
    "Sparsity",
    "Target",
    "UndefinedBehavior",
    "compress",
    "decode",
    "element_type",
    "expand",
    "is_zero",
    "mma_form",
    "mma_forms",
    "pack",
    "parse_target",
    "prune",
    "sparsity_of",
    "stored_columns",
    "unpack",
]
