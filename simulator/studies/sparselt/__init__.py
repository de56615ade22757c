"""The cuSPARSELt workflow on arrays: prune, check, compress, multiply, and PyTorch's form of the same.

>>> import numpy as np
>>> from simulator.studies import sparselt
>>> weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
>>> pruned = sparselt.prune(weights, "f16", "tile")
>>> sparselt.prune_check(pruned, "f16"), sparselt.compress(pruned, "f16").size
(True, 4608)
>>> values, meta = sparselt.to_torch(pruned, "f16")
>>> bool((sparselt.from_torch(values, meta, "f16") == pruned).all())
True

A matrix is [row, column], of unsigned patterns of the type's width, signed views of them, or floats, which are rounded.
docs/sparselt.md has the whole story, docs/formats.md every format of metadata, docs/sparselt_matmul.md the products:
`matmul`, `Plan`, `search` and their descriptors, which are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simulator.studies.sparselt.compression import compress, compressed_size, decompress
from simulator.studies.sparselt.pruning import ALGORITHMS, prune, prune_check, prune_mask
from simulator.studies.sparselt.torch_form import from_torch, to_cslt, to_torch
from simulator.studies.sparselt.torch_tile import TorchTile, torch_tile

if TYPE_CHECKING:
    from simulator.studies.sparselt.descriptors import MatmulDescriptor, MatrixDescriptor
    from simulator.studies.sparselt.multiply import matmul
    from simulator.studies.sparselt.plan import AlgorithmSelection, Plan, Search, search
    from simulator.studies.sparselt.product import Product
    from simulator.studies.sparselt.scales import Scales

__all__ = [
    "ALGORITHMS",
    "AlgorithmSelection",
    "MatmulDescriptor",
    "MatrixDescriptor",
    "Plan",
    "Product",
    "Scales",
    "Search",
    "TorchTile",
    "compress",
    "compressed_size",
    "decompress",
    "from_torch",
    "matmul",
    "prune",
    "prune_check",
    "prune_mask",
    "search",
    "to_cslt",
    "to_torch",
    "torch_tile",
]

_WHERE = {
    "AlgorithmSelection": "plan",
    "MatmulDescriptor": "descriptors",
    "MatrixDescriptor": "descriptors",
    "Plan": "plan",
    "Product": "product",
    "Scales": "scales",
    "Search": "plan",
    "matmul": "multiply",
    "search": "plan",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'simulator.studies.sparselt' has no attribute '{name}'")
    value = getattr(import_module(f"simulator.studies.sparselt.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
