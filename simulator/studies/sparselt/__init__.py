"""The cuSPARSELt workflow on arrays: prune, check, compress, and PyTorch's form of the same.

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
docs/sparselt.md has the whole story, docs/formats.md every format of metadata.
"""

from simulator.studies.sparselt.compression import compress, compressed_size, decompress
from simulator.studies.sparselt.pruning import ALGORITHMS, prune, prune_check, prune_mask
from simulator.studies.sparselt.torch_form import from_torch, to_cslt, to_torch
from simulator.studies.sparselt.torch_tile import TorchTile, torch_tile

__all__ = [
    "ALGORITHMS",
    "TorchTile",
    "compress",
    "compressed_size",
    "decompress",
    "from_torch",
    "prune",
    "prune_check",
    "prune_mask",
    "to_cslt",
    "to_torch",
    "torch_tile",
]
