"""`matmul`: D = activation(alpha * A * B^T + beta * C + bias) as cuSPARSELt computes it on a chip.

The sums are those of `accumulate`, what happens to them that of `epilogue`, the time that of `cost`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.targets import Target, parse_target
from isa.types import ELEMENT_TYPES, PACKED_E2M1
from simulator.arithmetic.convert import convert
from simulator.arithmetic.exact_gemm import exact_gemm
from simulator.errors import check_option
from simulator.floating_point import guarded
from simulator.parallel import ALONE
from simulator.studies.gemm.choice import chosen_path, tile_for
from simulator.studies.gemm.kinds import AnyTile
from simulator.studies.gemm.wgmma.tile import OUTPUTS
from simulator.studies.sparselt.accumulate import Chain, accumulate
from simulator.studies.sparselt.algorithms import slices_notes
from simulator.studies.sparselt.cost import Cost, check_cost, cost
from simulator.studies.sparselt.descriptors import BITS, MatrixDescriptor, patterns_of, refused, unfit
from simulator.studies.sparselt.epilogue import Epilogue, finish, finish_exactly, to_type
from simulator.studies.sparselt.given import type_name
from simulator.studies.sparselt.losses import Stages
from simulator.studies.sparselt.matrices import Patterns, sparsity
from simulator.studies.sparselt.operands import Operands, emptiness, read_operands
from simulator.studies.sparselt.product import Product, values_of
from simulator.studies.sparselt.pruning import prune_check
from simulator.studies.sparselt.scales import BlockScales, Scales, own_scales
from simulator.studies.sparselt.support import DEFAULT_LIBRARY, differences
from simulator.studies.sparselt.vocabulary import (
    DEFAULT_C,
    bias_type,
    check_types,
    gelu_status,
    measured_status,
    vector_status,
)

if TYPE_CHECKING:
    from simulator.chip.config import Config

Singles = NDArray[np.float32]

SPARSE = ("a", "b", None)
SEGMENTED_K = 2048  # from which segment-K was seen to cut K (measured at 128 x 128 x 2048; at K = 128 it does not)
NO_SCALES = Scales()


@guarded
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike | None = None,
    *,
    type: str,
    c_type: str | None = None,
    d_type: str | None = None,
    compute: str | None = None,
    alpha: float | ArrayLike = 1.0,
    beta: float | ArrayLike = 0.0,
    bias: ArrayLike | None = None,
    activation: str | None = None,
    relu_upper_bound: float = float("inf"),
    relu_threshold: float = 0.0,
    gelu_scale: float = 1.0,
    sparse: str | None = "a",
    split_k: int = 1,
    scales: Scales = NO_SCALES,
    tile: str | AnyTile = "",
    path: str = "",
    config: str | Path | Config | None = None,
    target: str | Target | None = None,
    strict: bool = True,
    exact: bool = True,
    library: str = DEFAULT_LIBRARY,
    prune: str | None = None,
) -> Product:
    """D = activation(alpha * A * B^T + beta * C + bias), [m, n], with values, exact values and time.

    Args:
        a, b, c: [m, k], [n, k] and [m, n], or [batch, ...] (a batch of 1, or no batch, serves all): unsigned patterns
            of the type's width, signed views of them, or floats, which are rounded to the type.
        type: of A and B: "f16", "bf16", "f32" (multiplied as tf32), "s8", "e4m3", "e5m2" or "e2m1".
        c_type, d_type: of C and D; default: as A and B, bf16 for 8-bit floats; D as C.
        compute: "32f", "32i" (s8) or "16f" (f16 on sm_90).
        alpha, beta: numbers, or vectors [m] (s8 alone). Beside a vector alpha a number for beta counts as 0, as in the
            library. C is not read where beta is 0.
        bias: [m] or [batch, m], added to the rows of D; of C's type, of f32 for s8 into s8 and s32. With a sparse B:
            [n], added to the columns, as the library does; so with vectors alpha and beta.
        activation: None, "relu" (with bound and threshold) or "gelu" (with scale).
        sparse: which operand has structured sparsity, "a" or "b"; None: neither, the dense instructions (no product of
            the library's).
        split_k: slices of K that are summed apart, then added in f32; -1: the library's segment-K, two slices from
            K = 2048 on for f16, bf16 and f32 (inferred from one size).
        scales: scale factors of narrow types, see `Scales`.
        tile, config: for the time: a tile of `gemm.tiles_of(config)` (default the first), any "BMxBN" or
            "BMxBNxBK", a `gemm.Tile`, `gemm.WgmmaTile` or `gemm.Tcgen05Tile`; and the chip's
            config, whose target also decides how sums are added. Without a config, no time.
        path: for the time, the instruction that multiplies: "mma", "wgmma" or "tcgen05"; "": as libraries do.
        target: the chip whose sums are computed, without a config (default sm_90a).
        strict: refuse the shapes that the library refuses; else any shape is taken.
        exact: compute the exact result, too.
        prune: an algorithm of `sparselt.prune` that prunes the sparse operand first, so that what that loses is told.
        library: version of cuSPARSELt whose published table says which types the chip takes: "0.8.1" or "0.10.0".

    Raises:
        IsaError: types, shapes or options that the library refuses, with its status; a matrix that is not pruned.
        ConfigError: a config without times for global memory.
    """
    chip = _target(config, target)
    type = type_name(type)
    c_name = type_name(c_type) if c_type else DEFAULT_C.get(type, type)
    d_name = type_name(d_type) if d_type else c_name
    mode = compute or ("32i" if type == "s8" else "32f")
    types = type, c_name, d_name, mode
    check_types(*types, chip, library, block_scaled=scales.blocked and chip.number >= 100, sparse=sparse is not None)
    operands = read_operands(a, b, c, type, c_name)
    if prune is not None:
        check_option("sparse", sparse, SPARSE)
        if sparse is None:
            raise unfit(f"prune='{prune}' of a dense product", "sparse='a' or 'b'")
        operands = operands.pruned(type, prune, sparse)
    _check(operands, type, c_name, sparse, strict)
    if sparse == "b":
        operands, scales = operands.turned(), scales.turned()
    k = operands.shape[2]
    scales.check(type, d_name, chip)
    steps = _epilogue(operands, type, c_name, d_name, mode, (alpha, beta), bias, scales, chip)
    options = Epilogue(
        *steps,
        activation,
        relu_upper_bound,
        relu_threshold,
        gelu_scale,
        mode == "16f",
        BITS[type] <= 8 and type != "s8",
        scales.d if scales.applied(chip) else 1.0,
    )
    _check_activation(options, type, d_name, chip)
    slices = slices_of(split_k, type, k)
    bits = BITS[c_name] if options.c is not None else 0
    asked = None
    if config is not None:
        if isinstance(tile, str):
            accumulator = "f16" if mode == "16f" else ""
            kind = "mxf4nvf4" if type == "e2m1" and chip.number in (100, 103, 110, 120, 121) else ""
            how: dict[str, Any] = {"accumulator": accumulator, "kind": kind, "path": path}
            if chosen_path(config, type, **how) == "wgmma":
                how["output"] = d_name if d_name in OUTPUTS["tf32" if type == "f32" else type] else ""
            tile = tile_for(tile, type, sparse=sparse is not None, config=config, **how)
        asked = _Timing(tile, operands, config, slices, bits)
    chain = Chain(type, chip, "f16" if mode == "16f" else "f32", sparse is not None, slices)
    if ALONE:
        time, found = _cost(asked), _values(operands, options, d_name, chain, scales, exact)
    else:
        with ThreadPoolExecutor(1) as pool:  # the time, while the compiled kernel computes values
            timing = pool.submit(_cost, asked)
            found = _values(operands, options, d_name, chain, scales, exact)
            time = timing.result()
    index = slice(None) if operands.batched else 0
    d, right, own = (None if x is None else (x if sparse != "b" else x.transpose(0, 2, 1))[index] for x in found)
    assert d is not None
    notes = *operands.notes, *emptiness(operands, type, sparse), *scales.notes(chip)
    if sparse is not None:
        notes = *notes, *slices_notes(split_k, chip), *differences(types, chip, library, scales.blocked)
    stages = Stages(
        type,
        operands.given,
        operands.rounded,
        (operands.a, operands.b),
        options,
        scales.blocks(type, *operands.shape, chip),
        operands.is_turned,
    )
    return Product(d, right, d_name, time, notes, own, library, operands.rounding, stages)


def _values(
    operands: Operands, options: Epilogue, d_type: str, chain: Chain, scales: Scales, exact: bool
) -> tuple[Patterns, Patterns | None, Patterns | None]:
    """D, the exact result, [batch, m, n], and D-out factors."""
    word = np.dtype(f"u{max(BITS[d_type], 8) // 8}")
    blocks = scales.blocks(chain.type, *operands.shape, chain.target)
    sums = np.stack([accumulate(*operands.pair(i), chain, blocks) for i in range(operands.batches)])
    own = scales.d_out and chain.target.number >= 100
    kind = "f32" if own else d_type  # what is scaled is rounded to f32 first
    d = finish(sums.astype(np.float32), options, kind)
    right = _exact(operands, chain.type, options, kind, blocks) if exact else None
    if not own:
        return d.astype(word), None if right is None else right.astype(word), None
    factors, patterns = own_scales(d.view(np.float32), d_type)
    found = [None if x is None else to_type(x.view(np.float32) / factors, d_type).astype(word) for x in (d, right)]
    assert found[0] is not None
    return found[0], found[1], patterns


def _target(config: str | Path | Config | None, target: str | Target | None) -> Target:
    if config is None:
        return parse_target(target or "sm_90a")
    from simulator.chip.config import load_config

    return load_config(config).target


def _check(operands: Operands, type: str, c_type: str, sparse: str | None, strict: bool) -> None:
    """Shapes that go together, that the library takes, and a sparse operand that is pruned."""
    check_option("sparse", sparse, SPARSE)
    m, n, k = operands.shape
    if operands.b.shape[2] != k:
        raise unfit(f"A of {m} x {k} with B of {n} x {operands.b.shape[2]}", f"B [n, {k}]")
    if operands.c is not None and operands.c.shape[1:] != (m, n):
        raise unfit(f"C of {operands.c.shape[1]} x {operands.c.shape[2]}", f"{m} x {n}")
    for name, matrix in (("A", operands.a), ("B", operands.b), ("C", operands.c)):
        if matrix is not None and len(matrix) not in (1, operands.batches):
            raise unfit(f"{len(matrix)} matrices {name}", f"1 or {operands.batches}")
    if strict and sparse is not None:
        MatrixDescriptor(m, k, type, structured=sparse == "a")
        MatrixDescriptor(n, k, type, structured=sparse == "b")
        MatrixDescriptor(m, n, c_type)
    if sparse is None:
        return
    pruned = operands.a if sparse == "a" else operands.b
    chunk = sparsity(type).chunk
    if k % chunk:
        raise IsaError("", -1, f"K = {k} with a sparse operand of {type}", f"a multiple of {chunk}")
    for matrix in pruned:
        if not prune_check(matrix, type):
            kept = sparsity(type).stored
            reason = f"{sparse.upper()} is not pruned: it has more than {kept} non-zero of {chunk} elements somewhere"
            raise IsaError("", -1, reason, "a pruned matrix, or prune='strip' (--prune strip)")


def _epilogue(
    operands: Operands,
    type: str,
    c_type: str,
    d_type: str,
    compute: str,
    factors: tuple[float | ArrayLike, float | ArrayLike],
    bias: ArrayLike | None,
    scales: Scales,
    chip: Target,
) -> tuple[Singles, Singles, Singles | None, Singles | None]:
    """alpha, beta, C and bias as `Epilogue` takes them."""
    m = operands.shape[0]
    alpha, beta = (np.asarray(x, np.float32).reshape(-1) for x in factors)
    for name, given in (("alpha", alpha), ("beta", beta)):
        if np.ndim(factors[0 if name == "alpha" else 1]) and given.size != m:
            raise unfit(f"a vector {name} of {given.size} elements", f"[{m}], one for each row of D")
        if np.ndim(factors[0 if name == "alpha" else 1]) and (status := vector_status(type)):
            measured = measured_status(status, "epilogue", type, chip)
            raise refused(f"a vector {name} for {type}", measured, "a number; vectors go with s8")
    if beta.size > 1 and alpha.size == 1:
        raise unfit("a vector beta beside a number for alpha", "a vector for both")
    if alpha.size > 1 and beta.size == 1:
        beta = np.zeros(1, np.float32)
    alpha = alpha * scales.factor(chip)
    read = bool((beta != 0).any())
    if read and operands.c is None:
        raise unfit("beta without C", "c=..., or beta=0")
    c = values_of(operands.c, c_type).astype(np.float32) if read and operands.c is not None else None
    if bias is None:
        return alpha, beta, c, None
    name = bias_type(type, c_type, d_type)
    patterns, _ = patterns_of(bias, name)
    if patterns.shape not in ((m,), (operands.batches, m)):
        raise unfit(f"a bias of shape {patterns.shape}", f"[{m}] or [batch, {m}], of {name}")
    return alpha, beta, c, values_of(patterns, name).astype(np.float32).reshape(-1, m, 1)


def _check_activation(options: Epilogue, type: str, d_type: str, chip: Target) -> None:
    if options.activation not in (None, "relu", "gelu"):
        raise IsaError(str(options.activation), -1, f"activation={options.activation!r}", "None, 'relu', 'gelu'")
    if options.activation == "gelu" and (status := gelu_status(type, d_type)):
        measured = measured_status(status, "epilogue", type, chip)
        raise refused(
            f"GELU of {type} into {d_type}", measured, "s8 into s8; e4m3 and e5m2 into bf16 or their own type"
        )


def slices_of(split_k: int, type: str, k: int) -> int:
    """How many slices of K a product is summed in; IsaError for a number that is none."""
    if split_k == -1:
        return 2 if type in ("f16", "bf16", "f32") and k >= SEGMENTED_K else 1
    if split_k < 1:
        raise unfit(f"split_k = {split_k}", "1 or more slices, or -1 for segment-K")
    return split_k


def _exact(
    operands: Operands, type: str, options: Epilogue, d_type: str, blocks: BlockScales | None
) -> NDArray[np.uint32]:
    """D from exact sums."""
    found: list[NDArray[np.floating]] = []
    for batch in range(operands.batches):
        a, b = operands.pair(batch)
        if type == "s8":
            left, right = (x.view(np.int8).astype(np.float64) for x in (a, b))
            found.append(left @ right.T)
            continue
        if type == "f32":
            a, b = (convert(x, "f32", "tf32") for x in (a, b))
        name = PACKED_E2M1 if type == "e2m1" else ELEMENT_TYPES["tf32" if type == "f32" else type]
        scaling: dict[str, Any] = {}
        if blocks is not None:
            scaling = {"scale_a": blocks.a, "scale_b": np.ascontiguousarray(blocks.b.T), "scale_type": blocks.type}
            scaling["block"] = blocks.block
        straight = options.idle and d_type in ("f16", "bf16", "f32")
        result = d_type if straight else "f64"
        found.append(exact_gemm(a, np.ascontiguousarray(b.T), a_type=name, b_type=name, result=result, **scaling))
    sums = np.stack(found)
    if type != "s8" and options.idle and d_type in ("f16", "bf16", "f32"):
        return to_type(sums, d_type)
    return finish_exactly(sums.astype(np.float64), options, d_type)


@dataclass(frozen=True)
class _Timing:
    """What the time depends on; tiles and configs that cannot be timed are refused before anything is computed."""

    tile: AnyTile
    operands: Operands
    config: str | Path | Config
    slices: int
    c_bits: int

    def __post_init__(self) -> None:
        check_cost(self.tile, self.config, self.slices)


def _cost(asked: _Timing | None) -> Cost | None:
    if asked is None:
        return None
    m, n, k = asked.operands.shape
    return cost(
        asked.tile,
        m,
        n,
        k,
        asked.config,
        batches=asked.operands.batches,
        slices=asked.slices,
        c_bits=asked.c_bits,
    )
