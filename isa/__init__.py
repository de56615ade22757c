"""The instruction set around NVIDIA's sparse tensor cores: how instructions are written, which of them are legal, how
descriptors and metadata are encoded, and where every matrix element lives. This package knows no chip, no time and no
state.

>>> import isa
>>> ins = isa.decode(
...     "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4, %r5}, {%r0, %r1}, %r6, 2;"
... )
>>> ins.form.a.shape, ins.selector
((16, 8), 2)

`dir(isa)` shows everything that is here. Names and packages are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isa.descriptors.instruction import InstructionDescriptor
    from isa.descriptors.tensor_map import TensorMap
    from isa.descriptors.zero_column_mask import ZeroColumnMask
    from isa.errors import Error, IsaError, UndefinedBehavior
    from isa.forms.mma import MmaForm, mma_forms
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
    from isa.ptx.opcodes import mma_form
    from isa.shared_memory.descriptor import SharedMemoryDescriptor
    from isa.shared_memory.hopper import WgmmaDescriptor
    from isa.targets import Target, parse_target
    from isa.tensor_memory.address import TmemAddress
    from isa.types import ELEMENT_TYPES, ElementType, element_type, pack, unpack
    from isa.undefined import metadata_findings

__all__ = [
    "ELEMENT_TYPES",
    "FOUR_OF_EIGHT",
    "ONE_OF_TWO",
    "TWO_OF_FOUR",
    "ElementType",
    "Error",
    "Instruction",
    "InstructionDescriptor",
    "IsaError",
    "Metadata",
    "MmaForm",
    "SharedMemoryDescriptor",
    "Sparsity",
    "Target",
    "TensorMap",
    "TmemAddress",
    "UndefinedBehavior",
    "WgmmaDescriptor",
    "ZeroColumnMask",
    "compress",
    "decode",
    "element_type",
    "expand",
    "is_zero",
    "metadata_findings",
    "mma_form",
    "mma_forms",
    "pack",
    "parse_target",
    "prune",
    "sparsity_of",
    "stored_columns",
    "unpack",
]

_NAMES_OF = {
    "isa.descriptors.instruction": ("InstructionDescriptor",),
    "isa.descriptors.tensor_map": ("TensorMap",),
    "isa.descriptors.zero_column_mask": ("ZeroColumnMask",),
    "isa.errors": ("Error", "IsaError", "UndefinedBehavior"),
    "isa.forms.mma": ("MmaForm", "mma_forms"),
    "isa.fragments.metadata": (
        "FOUR_OF_EIGHT",
        "ONE_OF_TWO",
        "TWO_OF_FOUR",
        "Metadata",
        "Sparsity",
        "sparsity_of",
        "stored_columns",
    ),
    "isa.fragments.sparsity": ("compress", "expand", "is_zero", "prune"),
    "isa.ptx.decoder": ("decode",),
    "isa.ptx.instruction": ("Instruction",),
    "isa.ptx.opcodes": ("mma_form",),
    "isa.shared_memory.descriptor": ("SharedMemoryDescriptor",),
    "isa.shared_memory.hopper": ("WgmmaDescriptor",),
    "isa.targets": ("Target", "parse_target"),
    "isa.tensor_memory.address": ("TmemAddress",),
    "isa.types": ("ELEMENT_TYPES", "ElementType", "element_type", "pack", "unpack"),
    "isa.undefined": ("metadata_findings",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_PARTS = (
    *("descriptors", "errors", "forms", "fragments", "mapping", "ptx", "shared_memory", "targets", "tensor_memory"),
    *("types", "undefined"),
)


def __getattr__(name: str) -> Any:
    value: Any
    if name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    elif name in _PARTS:
        value = import_module(f"isa.{name}")
    else:
        raise AttributeError(f"module 'isa' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS})
