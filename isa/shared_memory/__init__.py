"""Matrices in shared memory as `tcgen05.mma` reads them: swizzles, tiles, packing of narrow elements, and the
descriptors that name a matrix."""
