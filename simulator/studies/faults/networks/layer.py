"""A linear layer with 2:4 weights as it is stored, and as the chip computes it.

Weights are stored as values and metadata: of "torch" as PyTorch's semi-structured tensors keep them
(`sparselt.to_torch`), of "cusparselt" and "cutlass.sm80" as these libraries do (docs/formats.md). Rows and K are filled
up with zeros to what storage and instructions take, as a program must do that uses them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.metadata_formats import EMPTY, MetadataFormat, metadata_format
from isa.targets import Target, parse_target
from isa.types import Bits
from simulator.studies.faults.networks.chain import COLUMNS, ROWS, Chain
from simulator.studies.faults.networks.number_types import NumberType, Reals, number_type, numbers_of
from simulator.studies.sparselt import prune, prune_check, to_torch
from simulator.studies.sparselt.compression import split

STORAGES = ("cusparselt", "torch", "cutlass.sm80")
CHUNK = 4  # columns of one metadata code


@dataclass(frozen=True, eq=False)
class SparseLayer:
    """A layer whose weights are 2:4, in storage.

    Attributes:
        name: its name.
        kind: the type of weights and activations.
        chain: the instructions that multiply it.
        rows, inputs: outputs and inputs of the layer, without what fills them up.
        values: stored values, patterns uint32 [row, K / 2], filled up.
        codes: their metadata codes uint32 [row, K / 4], filled up.
        words: the stored array of metadata, uint32, flat.
        layout: the format of `words`.
        row_scales: what each row of weights was divided by, [row] without what fills up.
        input_scale: what activations are divided by.
        bias: float32 [row], without what fills up.
    """

    name: str
    kind: NumberType
    chain: Chain
    rows: int
    inputs: int
    values: Bits
    codes: Bits
    words: Bits
    layout: MetadataFormat
    row_scales: Reals
    input_scale: float
    bias: NDArray[np.float32]

    @property
    def k(self) -> int:
        """The inputs, filled up."""
        return 2 * int(self.values.shape[1])

    @property
    def steps(self) -> int:
        """How many instructions a chain has."""
        return self.k // self.chain.depth

    @property
    def selectors(self) -> int:
        """How many steps of K a register of metadata serves."""
        return self.kind.form.metadata.selectors

    @cached_property
    def code_places(self) -> NDArray[np.int64]:
        """For each code of `words`, counted from the start, row * chunks + chunk; -1 where it fills up."""
        rows, chunks = self.codes.shape
        positions = self.layout.positions(rows, chunks)[:rows, :chunks]
        places = np.full(len(self.words) * self.layout.codes_per_word, -1, np.int64)
        places[positions.ravel()] = np.arange(rows * chunks)
        return places

    @cached_property
    def numbers(self) -> Reals:
        """The weights as the product reads them, without scales: float64 [row, K], filled up."""
        whole = np.zeros((len(self.values), self.k))
        columns = np.stack([self.codes & 3, self.codes >> 2], axis=-1).reshape(len(whole), -1)
        columns = columns + CHUNK * (np.arange(columns.shape[1]) // 2)
        np.put_along_axis(whole, columns.astype(np.int64), self.kind.numbers(self.values), axis=1)
        return whole

    @property
    def dense(self) -> Reals:
        """The weights in numbers, scaled back: float64 [row, input]."""
        return self.numbers[: self.rows, : self.inputs] * self.row_scales[:, None]

    def operand(self, x: NDArray[Any]) -> Bits:
        """Activations [..., input] as B of the product: patterns uint32 [K, column]."""
        flat = np.asarray(x, np.float64).reshape(-1, self.inputs)
        patterns = self.kind.patterns(flat / self.input_scale)
        return np.ascontiguousarray(np.pad(patterns, ((0, 0), (0, self.k - self.inputs))).T)

    def product(self, b: Bits) -> Bits:
        """D without a fault, patterns uint32 [row, column]."""
        return self.chain.product(self.values, self.codes, b)[: self.rows]

    def outputs(self, d: Bits, row: NDArray[np.integer[Any]] | slice = slice(None)) -> NDArray[np.float32]:
        """The layer's outputs, scaled back and with the bias, of patterns of D that lie in these rows: of the shape of
        `d`, whose first axis is the rows' (of an array of rows: one row for each pattern)."""
        scale, bias = self.row_scales[row] * self.input_scale, self.bias[row]
        shape = (-1,) + (1,) * (d.ndim - 1)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = numbers_of(d, self.kind.result) * scale.reshape(shape) + bias.reshape(shape)
            return scaled.astype(np.float32)

    def rescaled(self, largest_input: float) -> SparseLayer:
        """The same layer with the scale of other activations, whose largest magnitude this is."""
        return replace(self, input_scale=float(self.kind.scales(np.asarray(largest_input))))

    def computed(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """The layer's outputs [..., output] for activations [..., input], without a fault."""
        return self.outputs(self.product(self.operand(x))).T.reshape(*np.shape(x)[:-1], self.rows)

    def codes_of_registers(self) -> Bits:
        """The codes that a register of metadata holds for every step of K, as many steps as registers serve: uint32
        [row, step, chunk of the step]; `EMPTY` behind the last step (assumed: what fills up metadata)."""
        steps = -(-self.steps // self.selectors) * self.selectors
        chunks = self.chain.depth // CHUNK
        filled = np.full((len(self.codes), steps * chunks), EMPTY, np.uint32)
        filled[:, : self.codes.shape[1]] = self.codes
        return filled.reshape(len(self.codes), steps, chunks)


def sparse_layer(
    name: str,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    type: str = "f16",
    largest_input: float = 1.0,
    target: str | Target = "sm_90a",
    storage: str = "cusparselt",
    pruned: bool = True,
) -> SparseLayer:
    """Stores a layer.

    Args:
        name: its name, for errors and tables.
        weight: [output, input], numbers.
        bias: [output]; without it zeros.
        type: of weights and activations, a key of `number_types.TYPES`.
        largest_input: the largest absolute activation, which sets the scale of 8-bit types.
        target: the chip whose arithmetic adds.
        storage: one of `STORAGES`.
        pruned: the weights must be 2:4; otherwise they are pruned by magnitude (cuSPARSELt's strips of four).

    Raises:
        ViewError: another type.
        IsaError: weights that are not 2:4 or no matrix, another storage, one that does not have the type, a chip
            without the instruction.
    """
    kind, chip = number_type(type), parse_target(target)
    numbers = np.asarray(weight, np.float64)
    if numbers.ndim != 2 or not numbers.size or not np.isfinite(numbers).all():
        raise IsaError("", -1, f"weights of layer {name} of shape {list(numbers.shape)}", "finite [output, input]")
    if storage not in STORAGES:
        raise IsaError(storage, -1, f"no storage '{storage}'", ", ".join(STORAGES))
    if not kind.form.supports(chip):
        raise IsaError(str(chip), -1, f"{chip} has no {kind.form.opcode}", str(kind.form.targets))
    chain, layout = Chain(kind, chip), metadata_format(storage, type)
    rows, inputs = numbers.shape
    scales = kind.scales(np.abs(numbers).max(axis=1))
    step_rows, step_chunks = layout.step
    high = lcm(ROWS, 1 if layout.padded else step_rows)
    wide = lcm(chain.depth, 1 if layout.padded else CHUNK * step_chunks)
    patterns = np.pad(kind.patterns(numbers / scales[:, None]), ((0, -rows % high), (0, -inputs % wide)))
    narrow = patterns.astype(f"u{kind.element.bits // 8}")
    if not pruned:
        narrow = prune(narrow, type, "strip")
    if not prune_check(narrow, type):
        reason = f"the weights of layer {name} are not 2:4: more than two of four neighbours are not zero"
        raise IsaError("", -1, reason, "pruned weights, or pruned=False (--prune), which prunes them by magnitude")
    values, codes, words = _stored(narrow, type, storage, layout)
    given = np.zeros(rows) if bias is None else np.asarray(bias, np.float64)
    if given.shape != (rows,):
        raise IsaError("", -1, f"a bias of shape {list(given.shape)} for {rows} outputs", f"[{rows}]")
    scale = float(kind.scales(np.asarray(float(largest_input))))
    return SparseLayer(
        name, kind, chain, rows, inputs, values, codes, words, layout, scales, scale, given.astype(np.float32)
    )


def _stored(narrow: NDArray[Any], type: str, storage: str, layout: MetadataFormat) -> tuple[Bits, Bits, Bits]:
    """Values [row, K / 2], codes [row, K / 4] and words of metadata, all uint32."""
    rows, columns = narrow.shape
    if storage == "torch":
        values, meta = to_torch(narrow, type)
        stored = meta.view(layout.dtype)
        codes = layout.load(stored, rows, columns // CHUNK)
    else:
        values, codes = split(narrow, type)
        stored = layout.store(codes)
    return values.astype(np.uint32), codes.astype(np.uint32), stored.reshape(-1).astype(np.uint32)


assert (ROWS, COLUMNS) == (16, 8)  # the tile of `mma.sp`, which selectors belong to
