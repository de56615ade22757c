"""Records, on a machine with a GPU, what cuSPARSELt and PyTorch make of matrices in every arrangement.

    for type in f16 bf16 f32 s8 e4m3 e5m2; do python record_sparselt.py $type FOLDER; done
    python record_sparselt.py torch FOLDER

Needs PyTorch with cuSPARSELt 0.8; it calls the library through ctypes. Each type has a process of its own, because the
library breaks down on 8-bit types whose K is not contiguous, which are left out. Keys:
`arranged|TYPE|ROWSxCOLUMNS|normal or special|in`, and with `|order|op|operand|algorithm` before them `out` and
`compressed`; `torchtile|TYPE|SHAPE|KIND|in` and `|ALGORITHM|cutlass or cusparselt|0 to 4`. Arrays are as they lie in
memory. Buffers are filled with 0x55 first, so that bytes that are never written show.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {
    "f16": (2, "float16"),
    "bf16": (14, "bfloat16"),
    "f32": (0, "float32"),
    "s8": (3, "int8"),
    "e4m3": (28, "float8_e4m3fn"),
    "e5m2": (29, "float8_e5m2"),
}
SHAPES = ((64, 64), (16, 16), (32, 32), (32, 96), (48, 160), (272, 96), (24, 40))
SHAPES_8 = ((64, 64), (32, 32), (32, 96), (64, 160), (288, 96), (32, 48), (160, 192))
SPECIAL = (0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 1e-40, 448.0)
ORDERS = {"row": 2, "col": 1}
SPACE = 1 << 16  # bytes of an opaque structure, more than any version needs


def numbers(generator: np.random.Generator, shape: tuple[int, int], kind: str, type: str) -> np.ndarray:
    """Random numbers; "special": many equal ones, zeros, NaN, infinities, tiny ones."""
    found = generator.standard_normal(shape) * (20 if type == "s8" else 1)
    if kind == "special":
        found = np.where(generator.random(shape) < 0.6, generator.integers(-3, 4, shape), found)
        found = np.where(generator.random(shape) < 0.15, generator.choice(SPECIAL, shape), found)
    return np.clip(np.nan_to_num(found), -128, 127) if type == "s8" else found


class Library:
    """cuSPARSELt with one handle."""

    def __init__(self) -> None:
        import torch

        torch.zeros(1).cuda()  # the library needs a CUDA context
        self.torch = torch
        folder = Path(torch.__file__).parent.parent / "nvidia" / "cusparselt" / "lib"
        self.calls = ctypes.CDLL(str(next(folder.glob("libcusparseLt.so*"))))
        self.handle = ctypes.create_string_buffer(SPACE)
        assert self.calls.cusparseLtInit(self.handle) == 0

    def filled(self, count: int) -> Any:
        return self.torch.full((count,), 0x55, dtype=self.torch.uint8).cuda()

    def run(
        self, type: str, shape: tuple[int, int], how: tuple[str, str, str, str], given: Any
    ) -> dict[str, Any] | None:
        """Prunes and compresses; None where the library refuses the matrix."""
        order, op, operand, algorithm = how
        rows, columns = shape
        matrix, stream = ctypes.create_string_buffer(SPACE), ctypes.c_void_p(0)
        sizes = [ctypes.c_int64(n) for n in (rows, columns, columns if order == "row" else rows)]
        first = (self.handle, matrix, *sizes, 16, TYPES[type][0], ORDERS[order], 0)
        if self.calls.cusparseLtStructuredDescriptorInit(*first):
            return None
        which = (self.handle, matrix, int(operand == "a"), int(op == "t"))
        pruned = self.filled(given.numel())
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (given, pruned)]
        if self.calls.cusparseLtSpMMAPrune2(*which, *pointers, int(algorithm == "strip"), stream):
            return None
        size, room = ctypes.c_size_t(), ctypes.c_size_t()
        self.calls.cusparseLtSpMMACompressedSize2(self.handle, matrix, ctypes.byref(size), ctypes.byref(room))
        buffer, work = self.filled(size.value), self.filled(room.value + 64)
        targets = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (buffer, work)]
        assert self.calls.cusparseLtSpMMACompress2(*which, pointers[1], *targets, stream) == 0
        self.torch.cuda.synchronize()
        return {"out": pruned.cpu().numpy(), "compressed": buffer.cpu().numpy()}


def record_type(type: str) -> dict[str, np.ndarray]:
    """Every arrangement of every shape of one type."""
    library, generator, found = Library(), np.random.default_rng(9), {}
    torch = library.torch
    word = f"u{torch.zeros(1, dtype=getattr(torch, TYPES[type][1])).element_size()}"
    for shape in SHAPES_8 if word == "u1" else SHAPES:
        for kind in ("normal", "special"):
            values = torch.tensor(numbers(generator, shape, kind, type)).float().to(getattr(torch, TYPES[type][1]))
            given = values.cuda().view(torch.uint8).flatten()
            stem = f"arranged|{type}|{shape[0]}x{shape[1]}|{kind}"
            found[f"{stem}|in"] = given.cpu().numpy().view(word)
            for how in np.ndindex(2, 2, 2, 2):
                names = (("col", "row")[how[0]], "nt"[how[1]], "ba"[how[2]], ("tile", "strip")[how[3]])
                contiguous = (names[0] == "row") == ((names[1] == "n") == (names[2] == "a"))
                result = library.run(type, shape, names, given) if contiguous or word != "u1" else None
                for name, array in (result or {}).items():
                    found["|".join((stem, *names, name))] = array.view(word) if name == "out" else array
    return found


def record_torch() -> dict[str, np.ndarray]:
    """PyTorch's tiles, both kinds of metadata."""
    import torch

    generator, found = np.random.default_rng(3), {}
    for type in ("f16", "bf16"):
        for shape in ((128, 128), (64, 128)):
            for kind in ("normal", "special"):
                dense = torch.tensor(numbers(generator, shape, kind, type)).to(getattr(torch, TYPES[type][1])).cuda()
                stem = f"torchtile|{type}|{shape[0]}x{shape[1]}|{kind}"
                found[f"{stem}|in"] = dense.view(torch.int16).cpu().numpy()
                for algorithm in ("", "largest_abs_values_greedy", "causal1122"):
                    for form in ("cutlass", "cusparselt") if shape[0] % 128 == 0 else ("cutlass",):
                        tile = torch._sparse_semi_structured_tile
                        result = tile(dense, algorithm=algorithm, use_cutlass=form == "cutlass")
                        for index, tensor in enumerate(result):
                            key = f"{stem}|{algorithm or 'default'}|{form}|{index}"
                            found[key] = tensor.contiguous().view(torch.uint8).cpu().numpy()
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in (*TYPES, "torch"):
        sys.exit("usage: record_sparselt.py TYPE|torch FOLDER")
    name = sys.argv[1]
    arrays = record_torch() if name == "torch" else record_type(name)
    np.savez_compressed(Path(sys.argv[2]) / f"{'torch_tiles' if name == 'torch' else name}.npz", **arrays)
    print(f"{name}: {len(arrays)} arrays")
