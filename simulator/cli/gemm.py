"""`tcsim gemm`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from simulator.cli import product
from simulator.cli.answer import UnreadableError, answer

if TYPE_CHECKING:
    from simulator.studies.gemm import Estimate, Tile

DESCRIPTION = """\
What D[m][n] = A[m][k] * B[n][k]^T costs on a chip: the kernel of a tile (cp.async, ldmatrix, mma.sp, several tiles in
shared memory) is written as a trace, run on one SM with its share of L2, and multiplied by the waves of CTAs. A is
2:4 sparse unless --dense is given.

--trace FILE writes the kernel of one CTA as a trace and stops.

With matrices (--a, --b) it multiplies them as cuSPARSELt does on that chip: values, error and time.
docs/sparselt_matmul.md has the whole story.
"""
EPILOG = """\
examples:
  tcsim gemm --tile 128x256x64                            time of 4096 x 4096 x 4096
  tcsim gemm --a W.npy --b x.npy --prune strip --bias bias.npy --relu --output y.npy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    for name in "mnk":
        parser.add_argument(f"--{name}", type=int, default=4096, help="default 4096")
    parser.add_argument(
        "--type",
        choices=("f16", "bf16", "s8", "f32", "e4m3", "e5m2"),
        default="f16",
        help="of A and B; the accumulators are f32 or s32 (f32, e4m3, e5m2: with matrices)",
    )
    parser.add_argument(
        "--tile",
        default="128x128x64",
        metavar="BMxBNxBK",
        help="what a CTA computes, and columns of K in an iteration (default 128x128x64); best: the fastest of eight",
    )
    parser.add_argument(
        "--warps", metavar="WMxWN", help="warps along M and N (default: one for each 64 x 64, at least 4)"
    )
    parser.add_argument("--stages", type=int, default=4, help="tiles in shared memory (default 4)")
    parser.add_argument("--dense", action="store_true", help="mma, not mma.sp")
    parser.add_argument("--config", default="h100_sxm", help="the GPU (default h100_sxm)")
    parser.add_argument("--trace", metavar="FILE", help="write the kernel as a trace")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    product.add_options(parser)


def execute(options: argparse.Namespace) -> int:
    if product.wanted(options):
        return product.execute(options)
    if options.trace:
        return answer(lambda: _kernel(options), output=options.trace)
    return answer(lambda: _estimate(options))


def _kernel(options: argparse.Namespace) -> str:
    from simulator.studies.gemm import kernel_trace

    return kernel_trace(_tile(options), options.k)


def _estimate(options: argparse.Namespace) -> str:
    from simulator.studies.gemm import estimate

    found = estimate(_tile(options), options.m, options.n, options.k, options.config)
    return json.dumps(asdict(found), indent=2) + "\n" if options.format == "json" else _table(found)


def _tile(options: argparse.Namespace) -> Tile:
    from simulator.studies.gemm import parse_tile

    warps = None
    if options.warps is not None:
        parts = options.warps.split("x")
        if len(parts) != 2 or not all(part.isdecimal() for part in parts):
            raise UnreadableError(f"--warps '{options.warps}' is not a pair of numbers", "WMxWN, e.g. 2x4")
        warps = int(parts[0]), int(parts[1])
    if options.tile == "best":
        options.tile = product.best_tile(options, options.m, options.n, options.k)
    return parse_tile(options.tile, options.type, warps=warps, stages=options.stages, sparse=not options.dense)


def _table(found: Estimate) -> str:
    """For a person."""
    waves = f"{found.waves} wave{'s' if found.waves > 1 else ''} of {found.wave_cycles:,} cycles"
    time = f"{found.cycles:,} cycles, with the launch {found.time_us:,.1f} us"
    lines = [
        f"{found.tile}: {found.m} x {found.n} x {found.k} on {found.config}",
        f"  CTAs {found.ctas:,}, {found.resident} on an SM at a time, {waves} (last {found.last_cycles:,})",
        f"  main loop {found.iteration_cycles:,.0f} cycles an iteration and CTA",
        f"  kernel {time}: {found.tflops:,.0f} TFLOPS (pruned products counted)",
        f"  bound by: {found.bound}",
    ]
    lines += [
        f"    {name:<14} {share:6.1%}{' of the slots are empty' if name == 'waves' else ''}"
        for name, share in found.shares.items()
    ]
    return "\n".join(lines) + "\n"
