"""Operands in shared memory: swizzles, tiles, packing of narrow elements, matrix descriptors."""
