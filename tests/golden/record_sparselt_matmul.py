"""Records products of cuSPARSELt on a GPU: epilogues, batches, a sparse B, algorithms, and what it accepts.

    python tests/golden/record_sparselt_matmul.py FOLDER

Needs the GPU, cupy, ml_dtypes and libcusparseLt (nvidia-cusparselt, as PyTorch brings it); nothing of tcsim. Writes
`cusparselt_matmul.npz` and `.json` into FOLDER, which compare_sparselt_matmul.py reads; cut_sparselt_matmul.py makes
the small files beside this one from them. Recorded on an NVIDIA H100 80GB HBM3 (driver 580) with cuSPARSELt 0.8.0 on
2026-11-22. Some plans of f32 in transposed layouts take minutes, so layouts and shapes are asked of the other types.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {  # cudaDataType, patterns
    "f32": (0, np.uint32),
    "f16": (2, np.uint16),
    "bf16": (14, np.uint16),
    "s8": (3, np.uint8),
    "s32": (10, np.uint32),
    "e4m3": (28, np.uint8),
    "e5m2": (29, np.uint8),
    "e2m1": (33, np.uint8),
}
COMPUTE = {"i32": 0, "f16": 1, "f32": 2}
SETS = """f16 f16 f16 f32, bf16 bf16 bf16 f32, f32 f32 f32 f32, s8 s8 s8 i32, s8 s32 s32 i32, s8 f16 f16 i32,
s8 bf16 bf16 i32, e4m3 f16 e4m3 f32, e4m3 f16 f16 f32, e4m3 bf16 bf16 f32, e4m3 bf16 e4m3 f32, e4m3 f32 f32 f32,
e5m2 bf16 bf16 f32, e5m2 f16 e5m2 f32, e5m2 f32 f32 f32, f16 f16 f16 f16"""
SHAPES = """8x64x64 16x64x64 32x64x64 64x8x64 64x16x64 64x4x64 64x64x8 64x64x16 64x64x32 64x64x64 36x64x64 33x64x64
64x33x64 64x36x64 64x40x64 64x64x40 64x64x72 64x64x68 64x64x96 40x40x64 48x48x96 24x24x64 0x64x64 64x0x64"""
M, N, K = 64, 64, 128
(RELU, UPPER, THRESHOLD, GELU, SCALING, ALPHA_VECTOR, BETA_VECTOR, BIAS_STRIDE, BIAS) = range(9)  # attributes
Integer, Single = ctypes.c_int, ctypes.c_float


class Refused(Exception):  # noqa: N818
    """The library answered with a status."""


class Library:
    """The calls, with the status of the first that fails as an exception."""

    def __init__(self) -> None:
        pattern = os.environ.get("CUSPARSELT", f"{sys.prefix}/lib/python3*/site-packages/nvidia/cusparselt/lib/*.so*")
        self.library = ctypes.CDLL(glob.glob(pattern)[0])
        self.handle = ctypes.create_string_buffer(1 << 16)
        self.library.cusparseLtInit(self.handle)

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(self.handle, *arguments)
        if status:
            raise Refused(name, status)

    def matrix(self, rows: int, cols: int, type: str, order: int, structured: bool, **more: Any) -> Any:
        """A descriptor. more: ld, alignment, batches and their stride."""
        made = ctypes.create_string_buffer(1 << 15)
        ld = more.get("ld") or (cols if order else rows)
        shape = (
            ctypes.c_int64(rows),
            ctypes.c_int64(cols),
            ctypes.c_int64(ld),
            ctypes.c_uint32(more.get("alignment", 16)),
        )
        kind = (Integer(TYPES[type][0]), Integer(2 if order else 1))
        if structured:
            self("cusparseLtStructuredDescriptorInit", made, *shape, *kind, Integer(0))
        else:
            self("cusparseLtDenseDescriptorInit", made, *shape, *kind)
        if "batches" in more:
            count, stride = Integer(more["batches"][0]), ctypes.c_int64(more["batches"][1])
            self("cusparseLtMatDescSetAttribute", made, Integer(0), ctypes.byref(count), ctypes.c_size_t(4))
            self("cusparseLtMatDescSetAttribute", made, Integer(1), ctypes.byref(stride), ctypes.c_size_t(8))
        return made


class Recorder:
    """Results and the log."""

    def __init__(self) -> None:
        import cupy

        self.cupy, self.call = cupy, Library()
        self.results: dict[str, Any] = {}
        self.log: list[list[Any]] = []

    def product(self, key: str, types: tuple[str, ...], arrays: tuple[Any, ...] | None = None, **options: Any) -> None:
        """Runs one product (or only plans it, without arrays) and logs the status."""
        try:
            found = self._product(types, arrays, options)
            if found is not None:
                self.results[f"{key}|D"] = found
            self.log.append([key, 0])
        except Refused as error:
            self.log.append([key, error.args[1], error.args[0]])

    def _product(self, types: tuple[str, ...], arrays: tuple[Any, ...] | None, options: dict[str, Any]) -> Any:
        a, c, d, compute = types
        m, n, k = options.get("shape", (M, N, K))
        op_a, op_b, (order_a, order_b, order_c) = (
            options.get("op_a", 0),
            options.get("op_b", 1),
            options.get("orders", (1, 1, 1)),
        )
        sparse, more = options.get("sparse", "a"), options.get("more", {})
        call, byref, size = self.call, ctypes.byref, ctypes.c_size_t
        made = [
            call.matrix(*((k, m) if op_a else (m, k)), a, order_a, sparse == "a", **more.get("a", {})),
            call.matrix(
                *((n, k) if op_b else (k, n)), options.get("b", a), order_b, sparse == "b", **more.get("b", {})
            ),
            call.matrix(m, n, c, order_c, False, **more.get("c", {})),
            call.matrix(m, n, d, order_c, False, **more.get("c", {})),
        ]
        product, selection, plan = (ctypes.create_string_buffer(1 << 15) for _ in range(3))
        call("cusparseLtMatmulDescriptorInit", product, Integer(op_a), Integer(op_b), *made, Integer(COMPUTE[compute]))
        held = []
        for attribute, value in options.get("attributes", ()):
            call(
                "cusparseLtMatmulDescSetAttribute",
                product,
                Integer(attribute),
                byref(value),
                size(ctypes.sizeof(value)),
            )
        factors = []
        for name, attribute, default in (("alpha", ALPHA_VECTOR, 1.0), ("beta", BETA_VECTOR, 0.0)):
            value = options.get(name, default)
            if np.ndim(value):
                on = Integer(1)
                call("cusparseLtMatmulDescSetAttribute", product, Integer(attribute), byref(on), size(4))
                held.append(self.cupy.asarray(value))
                factors.append(ctypes.c_void_p(held[-1].data.ptr))
            else:
                factors.append(byref(Single(value)))
        if "bias" in options:
            held.append(self.cupy.asarray(options["bias"]))
            pointer, stride = ctypes.c_void_p(held[-1].data.ptr), ctypes.c_int64(options.get("bias_stride", 0))
            call("cusparseLtMatmulDescSetAttribute", product, Integer(BIAS), byref(pointer), size(8))
            call("cusparseLtMatmulDescSetAttribute", product, Integer(BIAS_STRIDE), byref(stride), size(8))
        call("cusparseLtMatmulAlgSelectionInit", selection, product, Integer(0))
        for attribute, value in options.get("algorithm", ()):
            call("cusparseLtMatmulAlgSetAttribute", selection, Integer(attribute), byref(Integer(value)), size(4))
        call("cusparseLtMatmulPlanInit", plan, product, selection)
        return None if arrays is None else self._run(plan, arrays, factors, sparse, d)

    def _run(self, plan: Any, arrays: tuple[Any, ...], factors: list[Any], sparse: str, d_type: str) -> Any:
        cupy, call, byref = self.cupy, self.call, ctypes.byref
        compressed, buffer, workspace = (ctypes.c_size_t(0) for _ in range(3))
        call("cusparseLtSpMMACompressedSize", plan, byref(compressed), byref(buffer))
        call("cusparseLtMatmulGetWorkspace", plan, byref(workspace))
        a, b, c = (cupy.asarray(np.ascontiguousarray(x)) for x in arrays)
        d = cupy.zeros(arrays[2].size, TYPES[d_type][1])
        rooms = [cupy.zeros(x.value + 16, np.uint8) for x in (compressed, buffer, workspace)]
        pointer = [ctypes.c_void_p(x.data.ptr) for x in (a, b, c, d, *rooms)]
        call("cusparseLtSpMMACompress", plan, pointer[0 if sparse == "a" else 1], pointer[4], pointer[5], None)
        left, right = (pointer[4], pointer[1]) if sparse == "a" else (pointer[0], pointer[4])
        call(
            "cusparseLtMatmul",
            plan,
            factors[0],
            left,
            right,
            factors[1],
            pointer[2],
            pointer[3],
            pointer[6],
            None,
            Integer(0),
        )
        cupy.cuda.runtime.deviceSynchronize()
        return cupy.asnumpy(d).reshape(arrays[2].shape)


def encode(x: Any, type: str) -> Any:
    """Numbers to patterns."""
    import ml_dtypes

    if type == "s8":
        return np.clip(np.rint(x), -128, 127).astype(np.int8).view(np.uint8)
    if type == "s32":
        return np.rint(x).astype(np.int64).astype(np.int32).view(np.uint32)
    kinds = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    kind = kinds.get(type) or {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[type]
    return np.asarray(x, np.float32).astype(kind).view(TYPES[type][1])


def strip(x: Any, type: str) -> Any:
    """The larger half of each strip along K."""
    chunk = 2 if type == "f32" else 4
    parts = x.reshape(x.shape[0], -1, chunk)
    rank = np.argsort(np.argsort(-np.abs(parts), axis=2, kind="stable"), axis=2)
    return np.where(rank < chunk // 2, parts, 0).reshape(x.shape)


def relu(threshold: float, upper: float) -> tuple[Any, ...]:
    return (RELU, Integer(1)), (UPPER, Single(upper)), (THRESHOLD, Single(threshold))


def gelu(scaling: float = 1.0) -> tuple[Any, ...]:
    return ((GELU, Integer(1)), *(((SCALING, Single(scaling)),) if scaling != 1 else ()))


def epilogues(r: Recorder, types: tuple[str, ...], rng: Any) -> None:
    """Every epilogue on operands of moderate size, and on wide ones with NaN and infinities."""
    a_type, c_type, d_type, _ = types
    base, scale = "|".join(("mm", *types)), 8 if a_type == "s8" else 1
    a = encode(strip(rng.standard_normal((M, K)) * scale, a_type), a_type)
    b = encode(rng.standard_normal((N, K)) * scale, a_type)
    c = encode(rng.standard_normal((M, N)) * (30 if c_type in ("s8", "s32") else 1), c_type)
    a[3, :] = 0
    bias_type = "f32" if a_type == "s8" and d_type in ("s8", "s32") else c_type
    bias = encode(rng.standard_normal(M) * (20 if a_type == "s8" else 1), bias_type)
    alphas = rng.standard_normal(M).astype(np.float32) * np.float32(0.05 if a_type == "s8" else 1)
    betas = rng.standard_normal(M).astype(np.float32)
    for name, array in (("A", a), ("B", b), ("C", c), ("bias", bias), ("alphavec", alphas), ("betavec", betas)):
        r.results[f"{base}|{name}"] = array
    one, two, given = {"alpha": 0.0137 if a_type == "s8" else 0.7310586}, {"beta": -1.3}, {"bias": bias}
    vector = {"alpha": alphas}
    for name, options in {
        "plain": {},
        "ab": one | two,
        "bias": one | given,
        "abbias": one | two | given,
        "relu": one | {"attributes": relu(0.25, 2.5)},
        "reluneg": one | {"attributes": relu(-1, 0.5)},
        "abbiasrelu": one | two | given | {"attributes": relu(0.25, 2.5)},
        "reluplain": {"attributes": ((RELU, Integer(1)),)},
        "gelu": {"attributes": gelu()},
        "geluscale": {"attributes": gelu(0.37)},
        "gelubias": one | two | given | {"attributes": gelu()},
        "av": vector | two,
        "avbiasrelu": vector | two | given | {"attributes": relu(0.25, 2.5)},
        "avbv": vector | {"beta": betas},
        "avgelu": vector | {"attributes": gelu()},
    }.items():
        r.product(f"{base}|{name}", types, (a, b, c), **options)
    for attribute, name in ((15, "ascale"), (16, "bscale"), (18, "dscale"), (19, "doutscale")):
        factor = r.cupy.asarray(np.array([0.3, 0, 0, 0], np.float32))
        scales = ((attribute - 5, Integer(1)), (attribute, ctypes.c_void_p(factor.data.ptr)))
        r.product(f"{base}|{name}", types, (a, b, c), attributes=scales)
    wide = [np.exp2(rng.integers(-6, 7, shape)) * rng.standard_normal(shape) for shape in ((M, K), (N, K))]
    a = encode(strip(wide[0] * scale, a_type), a_type)
    b, c = encode(wide[1], a_type), encode(rng.standard_normal((M, N)) * 100, c_type)
    for row, value in ((1, np.nan), (2, np.inf), (4, -np.inf), (5, 448), (6, -448)):
        if a_type != "s8" and not (a_type == "e4m3" and np.isinf(value)):
            magnitude = {1: 127, 2: 32767, 4: 2**31 - 1}[a.itemsize]
            a[row] = np.where((a[row] & magnitude) != 0, encode(np.full(K, value), a_type), 0)
    for name, array in (("A2", a), ("B2", b), ("C2", c)):
        r.results[f"{base}|{name}"] = array
    epilogues: dict[str, dict[str, Any]] = {
        "big": {},
        "bigab": {"alpha": 1.7, "beta": 0.3},
        "bigrelu": {"attributes": ((RELU, Integer(1)),)},
        "biggelu": {"attributes": gelu()},
        "bigbias": {"alpha": 0.37, "bias": bias},
        "bigclip": {"attributes": relu(0.25, 2.5)},
    }
    for name, options in epilogues.items():
        r.product(f"{base}|{name}", types, (a, b, c), **options)


def batches(r: Recorder, types: tuple[str, ...], rng: Any) -> None:
    base = "|".join(("batch", *types))
    a = encode(strip(rng.standard_normal((2 * M, K)) * 4, types[0]), types[0]).reshape(2, M, K)
    b, c = encode(rng.standard_normal((2, N, K)) * 4, types[0]), encode(rng.standard_normal((2, M, N)) * 9, types[1])
    bias = encode(rng.standard_normal((2, M)) * 9, "f32" if types[0] == "s8" else types[1])
    for name, array in (("A", a), ("B", b), ("C", c), ("bias", bias)):
        r.results[f"{base}|{name}"] = array
    for name, of_a, of_b, stride in (("all", M * K, N * K, M), ("abroad", 0, N * K, 0), ("bbroad", M * K, 0, M)):
        more = {key: {"batches": (2, step)} for key, step in (("a", of_a), ("b", of_b), ("c", M * N))}
        r.product(f"{base}|{name}", types, (a, b, c), beta=0.5, bias=bias, bias_stride=stride, more=more)


def sparse_b(r: Recorder, types: tuple[str, ...], rng: Any) -> None:
    base = "|".join(("sparseb", *types))
    a, c = encode(rng.standard_normal((M, K)) * 4, types[0]), encode(rng.standard_normal((M, N)) * 9, types[1])
    b = encode(strip(rng.standard_normal((N, K)) * 4, types[0]), types[0])
    bias = encode(rng.standard_normal(M) * 9, "f32" if types[0] == "s8" else types[1])
    for name, array in (("A", a), ("B", b), ("C", c), ("bias", bias)):
        r.results[f"{base}|{name}"] = array
    r.product(f"{base}|bias", types, (a, b, c), beta=0.5, bias=bias, sparse="b")


def algorithms(r: Recorder, types: tuple[str, ...], rng: Any, most: int = 32) -> None:
    """Every config id, split-K factor, mode and number of buffers."""
    base, shape = "|".join(("cfg", *types)), (128, 128, 2048)
    a = encode(strip(rng.standard_normal((shape[0], shape[2])), types[0]), types[0])
    b, c = encode(rng.standard_normal((shape[1], shape[2])), types[0]), encode(rng.standard_normal(shape[:2]), types[1])
    r.results[f"{base}|A"], r.results[f"{base}|B"] = a, b
    asked = {"default": ()} | {f"id{i}": ((0, i),) for i in range(most)}
    asked |= {f"split{s}": ((3, s),) for s in (-1, 1, 2, 4, 3000)}
    asked |= {f"mode{s}": ((4, s),) for s in range(7)} | {f"buffers{s}": ((5, s),) for s in (0, 1)}
    for name, settings in asked.items():
        r.product(f"{base}|{name}", types, (a, b, c), shape=shape, algorithm=settings)


def accepted(r: Recorder) -> None:
    """All types; layouts, shapes, leading dimensions and alignments of some."""
    plain = {"shape": (128, 128, 128)}
    for a in TYPES:
        for b in ("e4m3", "e5m2") if a in ("e4m3", "e5m2") else (a,):
            for c in TYPES:
                for d in TYPES:
                    for compute in COMPUTE:
                        r.product(f"types|{a}|{b}|{c}|{d}|{compute}", (a, c, d, compute), b=b, **plain)
    for a, c, compute in (
        ("f16", "f16", "f32"),
        ("s8", "s8", "i32"),
        ("s8", "f16", "i32"),
        ("e4m3", "bf16", "f32"),
        ("f16", "f16", "f16"),
    ):
        types, name = (a, c, c, compute), f"{a}|{c}|{compute}"
        for index in np.ndindex(2, 2, 2, 2, 2):
            op_a, op_b, *orders = index
            for sparse in "ab":
                key = f"layout|{name}|op{op_a}{op_b}|order{''.join(map(str, orders))}|{sparse}"
                r.product(key, types, op_a=op_a, op_b=op_b, orders=orders, sparse=sparse, **plain)
        for text in SHAPES.split():
            shape = tuple(int(x) for x in text.split("x"))
            r.product(f"shape|{name}|{text}", types, shape=shape)
            r.product(f"shapeb|{name}|{text}", types, shape=shape, sparse="b")
        for alignment in (8, 4, 3, 32):
            more = {key: {"alignment": alignment} for key in "abc"}
            r.product(f"desc|{name}|{ {'al': alignment} }", types, more=more, **plain)
        for key, ld in (("a", 160), ("b", 160), ("c", 160), ("a", 64), ("a", 129)):
            r.product(f"desc|{name}|{ {'ld': {key: ld}} }", types, more={key: {"ld": ld}}, **plain)


def main() -> None:
    folder = Path(sys.argv[1])
    rng, recorder = np.random.default_rng(15), Recorder()
    sets = [tuple(words.split()) for words in SETS.split(",")]
    for types in sets:
        epilogues(recorder, types, rng)
    for i in (0, 3, 9):
        batches(recorder, sets[i], rng)
    for i in (0, 2, 3, 9):
        sparse_b(recorder, sets[i], rng)
    for i in (2, 11, 0):
        algorithms(recorder, sets[i], rng)
    accepted(recorder)
    np.savez_compressed(folder / "cusparselt_matmul.npz", **recorder.results)
    (folder / "cusparselt_matmul.json").write_text(json.dumps({"log": recorder.log}))
    print(
        len(recorder.results), "arrays,", sum(row[1] != 0 for row in recorder.log), "of", len(recorder.log), "refused"
    )


if __name__ == "__main__":
    main()
