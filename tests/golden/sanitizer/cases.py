"""All right kernels of the corpus, by what they are about."""

from __future__ import annotations

from tests.golden.sanitizer import blocks, grids, hopper, tensor

CASES = (*blocks.CASES, *grids.CASES, *tensor.CASES, *hopper.CASES)
