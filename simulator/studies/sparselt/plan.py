"""Algorithm selection, plan and search: the library's way to a product, and how long each choice takes.

`Plan` holds a matmul descriptor and an algorithm; called with memory, it gives what the library would have written to
D. `search` tries tiles and slices of K in the GEMM model and returns the selections, fastest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.targets import Target
from simulator.errors import ConfigError
from simulator.floating_point import guarded
from simulator.studies.gemm.choice import chosen_path, tile_for, tiles_of
from simulator.studies.gemm.energy import LIMITED
from simulator.studies.sparselt.algorithms import MODES, algorithms_of
from simulator.studies.sparselt.cost import TILES, Cost, cost
from simulator.studies.sparselt.descriptors import MatmulDescriptor, unfit
from simulator.studies.sparselt.matrices import Patterns
from simulator.studies.sparselt.multiply import NO_SCALES, matmul, slices_of
from simulator.studies.sparselt.product import Product
from simulator.studies.sparselt.scales import Scales

if TYPE_CHECKING:
    import pandas

    from simulator.chip.config import Config

_UNKNOWN = ("heuristic", "splitk", "streamk")  # modes that cut K in a way that is not published


@dataclass(frozen=True)
class AlgorithmSelection:
    """What `cusparseLtMatmulAlgSetAttribute` sets.

    Attributes:
        config_id: place of a tile in `gemm.tiles_of(config)` (the library's ids name kernels of its own).
        split_k: slices of K; -1: segment-K; 1: none.
        mode: one of `MODES`; "": what the library takes on the chip. No mode changes a bit here: where the library's
            would, or may, the product's notes say so.
        buffers: for partial sums; they change nothing but where the library keeps them.
        iterations: of each algorithm in a search; the model needs one.
    """

    config_id: int = 0
    split_k: int = 1
    mode: str = ""
    buffers: int = 0
    iterations: int = 5

    MAX_ID = len(TILES)

    def check(self, target: str | Target) -> None:
        """IsaError where the library refuses the selection on that chip (sm_90: measured; others: published)."""
        row = algorithms_of(target)
        if not 0 <= self.config_id < self.MAX_ID:
            raise unfit(f"config id {self.config_id}", f"0 to {self.MAX_ID - 1}")
        if self.iterations < 1:
            raise unfit(f"{self.iterations} iterations of a search", "1 or more")
        if self.mode and self.mode not in MODES:
            raise IsaError(self.mode, -1, f"split-K mode '{self.mode}'", ", ".join(MODES))
        if self.mode and self.mode not in row.modes:
            raise unfit(f"split-K mode '{self.mode}' on {target} ({row.source})", ", ".join(row.modes))
        if not row.takes(self.split_k):
            legal = row.legal_slices + "; slices of one's own: matmul" * row.segments
            raise unfit(f"split_k = {self.split_k} on {target} ({row.source})", legal)
        if self.mode == "dataparallel" and self.split_k != 1:
            raise unfit(f"split_k = {self.split_k} with mode 'dataparallel', which does not split K", "split_k=1")
        most = max(self.split_k - 1, 0) if row.buffers else 0
        if not 0 <= self.buffers <= most:
            raise unfit(f"{self.buffers} split-K buffers ({row.source})", f"0 to {most}" if most else "0")

    def mode_on(self, target: str | Target) -> str:
        """The mode that holds on a chip: the one that is set, or the chip's own."""
        return self.mode or algorithms_of(target).modes[0]

    def notes(self, target: str | Target, type: str, k: int) -> tuple[str, ...]:
        """What to tell the reader of a product: that a mode does here what it may not do in the library."""
        mode = self.mode_on(target)
        if mode not in _UNKNOWN:
            return ()
        slices = slices_of(self.split_k, type, k)
        whole = "one piece" if slices == 1 else f"{slices} slices"
        how = f"split-K mode '{mode}': how the library cuts K then is not published"
        return (f"{how}; values and time here are those of K in {whole} (assumed)",)


@dataclass(frozen=True)
class Plan:
    """A product, ready to run.

    Attributes:
        matmul: the descriptor.
        selection: the algorithm.
        config: for the time; None: values alone.
        path: for the time, the instruction that multiplies, as of `search`.
    """

    matmul: MatmulDescriptor
    selection: AlgorithmSelection = AlgorithmSelection()
    config: str | Path | Config | None = None
    path: str = ""

    def __post_init__(self) -> None:
        self.selection.check(self.matmul.target)

    @guarded
    def __call__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        c: ArrayLike | None = None,
        *,
        alpha: float | ArrayLike = 1.0,
        beta: float | ArrayLike = 0.0,
        bias: ArrayLike | None = None,
        bias_stride: int = 0,
        activation: str | None = None,
        relu_upper_bound: float = float("inf"),
        relu_threshold: float = 0.0,
        gelu_scale: float = 1.0,
        scales: Scales = NO_SCALES,
        exact: bool = True,
    ) -> tuple[Patterns, Product]:
        """The memory of D, and the product [batch, m, n].

        Args:
            a, b, c: memory as the descriptors say, arrays of any shape.
            bias: memory; `bias_stride` elements lie from one batch's vector to the next (0: all have the first).
            scales: of A, B and D: CUSPARSELT_MATMUL_A_SCALE_MODE and its like are read off the factors, which go by
                op(A) and op(B); those of D-out are the product's `d_scale`.
            alpha, beta, activation, relu_upper_bound, relu_threshold, gelu_scale, exact: as `matmul`.
        """
        what = self.matmul
        left, right = what.a.read(a), what.b.read(b)
        left = left if what.op_a == "n" else left.transpose(0, 2, 1)
        right = right if what.op_b == "t" else right.transpose(0, 2, 1)
        addend = None if c is None else what.c.read(c)
        found = matmul(
            np.ascontiguousarray(left),
            np.ascontiguousarray(right),
            None if addend is None else np.ascontiguousarray(addend),
            type=what.a.type,
            c_type=what.c.type,
            d_type=what.d.type,
            compute=what.compute,
            alpha=alpha,
            beta=beta,
            bias=None if bias is None else self._bias(np.asarray(bias), bias_stride),
            activation=activation,
            relu_upper_bound=relu_upper_bound,
            relu_threshold=relu_threshold,
            gelu_scale=gelu_scale,
            sparse=what.sparse,
            split_k=self.selection.split_k,
            tile=self._tiles[self.selection.config_id],
            path=self.path,
            config=self.config,
            target=what.target,
            scales=scales,
            exact=exact,
            library=what.library,
        )
        of_mode = self.selection.notes(what.target, what.a.type, what.shape[1])
        return what.d.write(found.d), replace(found, notes=(*found.notes, *of_mode))

    @property
    def _tiles(self) -> tuple[str, ...]:
        """The tiles of the kernels that multiply, by their config ids."""
        accumulator = "f16" if self.matmul.compute == "16f" else ""
        path = chosen_path(self.config, self.matmul.a.type, path=self.path, accumulator=accumulator)
        return tiles_of(self.config, path)

    def _bias(self, memory: NDArray[np.generic], stride: int) -> NDArray[np.generic]:
        """[batch, m] of a piece of memory."""
        m, batches = self.matmul.shape[0], self.matmul.d.batches
        flat = memory.reshape(-1)
        if stride < 0 or (stride and stride < m) or flat.size < (batches - 1) * stride + m:
            raise unfit(f"a bias of {flat.size} elements with stride {stride}", f"{batches} vectors of {m}")
        return np.stack([flat[i * stride : i * stride + m] for i in range(batches)])


@dataclass(frozen=True)
class Search:
    """Selections and what they take, fastest first.

    Attributes:
        choices: (selection, cost).
        refused: (tile, why) of those that the chip cannot run.
        tiles: those of the kernels, by their config ids.
    """

    choices: tuple[tuple[AlgorithmSelection, Cost], ...]
    refused: tuple[tuple[str, str], ...]
    tiles: tuple[str, ...] = TILES

    @property
    def best(self) -> AlgorithmSelection:
        """The fastest."""
        return self.choices[0][0]

    def to_frame(self) -> pandas.DataFrame:
        """One row a selection."""
        import pandas

        return pandas.DataFrame(
            [
                {
                    "config_id": selection.config_id,
                    "tile": self.tiles[selection.config_id],
                    "split_k": selection.split_k,
                    "cycles": time.cycles,
                    "time_us": time.time_us,
                    "tflops": time.tflops,
                    **{name: getattr(time, name) for name in LIMITED},
                    "bound": time.kernel.bound,
                }
                for selection, time in self.choices
            ]
        )


@guarded
def search(
    type: str,
    m: int,
    n: int,
    k: int,
    config: str | Path | Config = "h100_sxm",
    *,
    sparse: bool = True,
    accumulator: str = "",
    tiles: Sequence[str] = (),
    split_k: Sequence[int] = (1,),
    warps: tuple[int, int] | None = None,
    stages: int | None = None,
    kind: str = "",
    cluster: tuple[int, int] | None = None,
    path: str = "",
) -> Search:
    """How long each tile and number of slices takes, as `cusparseLtMatmulSearch` measures.

    Args:
        type: as the library names it; or any other type that the GEMM model has.
        accumulator: of the matrix instructions: "f16", or what the type has first.
        split_k: numbers of slices of K to try.
        tiles: of `gemm.tiles_of(config)`; all of them if none are named.
        warps, stages, kind, cluster, path: of all tiles; see `gemm.tile_for`.

    Raises:
        IsaError: a type that the GEMM model has no instructions for, or no tile that fits.
        ConfigError: a config without times for global memory.
    """
    how: dict[str, Any] = {"accumulator": accumulator, "warps": warps, "kind": kind, "path": path}
    every = tiles_of(config, chosen_path(config, type, **how))
    for tile in tiles or ():
        if tile not in every:
            raise IsaError(tile, -1, f"tile {tile} has no config id", ", ".join(every))
    choices: list[tuple[AlgorithmSelection, Cost]] = []
    failed: list[tuple[str, str]] = []
    for tile in tiles or every:
        for slices in split_k:
            try:
                shape = tile_for(tile, type, sparse=sparse, stages=stages, config=config, cluster=cluster, **how)
                time = cost(shape, m, n, k, config, slices=slices)
            except (IsaError, ConfigError) as error:
                failed.append((tile, error.reason))
                last = error
                continue
            choices.append((replace(AlgorithmSelection(), config_id=every.index(tile), split_k=slices), time))
    if not choices:
        raise last
    choices.sort(key=lambda choice: choice[1].cycles)
    return Search(tuple(choices), tuple(failed), every)
