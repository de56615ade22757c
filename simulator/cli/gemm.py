"""`tcsim gemm`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli import BAD, DONE, product, say

if TYPE_CHECKING:
    from simulator.studies.gemm import Estimate

DESCRIPTION = """\
What D[m][n] = A[m][k] * B[n][k]^T costs on a chip: the kernel of a tile (cp.async, ldmatrix, mma.sp, several tiles in shared memory) is written
as a trace, run on one SM with its share of L2, and multiplied by the waves of CTAs. A is 2:4 sparse unless --dense is given.

--trace FILE writes the kernel of one CTA as a trace and stops.

With matrices (--a, --b) it multiplies them as cuSPARSELt does on that chip: values, error and time. docs/sparselt_matmul.md
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
    from isa import IsaError
    from simulator.errors import ConfigError
    from simulator.files import complete
    from simulator.studies.gemm import estimate, kernel_trace, parse_tile

    if product.wanted(options):
        return product.execute(options)
    warps = None
    if options.warps is not None:
        parts = options.warps.split("x")
        if len(parts) != 2 or not all(part.isdecimal() for part in parts):
            say(f"--warps '{options.warps}' is not a pair of numbers; legal: WMxWN, e.g. 2x4")
            return BAD
        warps = int(parts[0]), int(parts[1])
    try:
        if options.tile == "best":
            options.tile = product.best_tile(options, options.m, options.n, options.k)
        tile = parse_tile(options.tile, options.type, warps=warps, stages=options.stages, sparse=not options.dense)
        if options.trace:
            if not Path(options.trace).resolve().parent.is_dir():
                say(
                    f"{options.trace}: cannot be written, there is no such folder; legal: a file in a folder that exists"
                )
                return BAD
            with complete(options.trace) as stream:
                stream.write(kernel_trace(tile, options.k).encode())
            return DONE
        found = estimate(tile, options.m, options.n, options.k, options.config)
    except IsaError as error:
        say(f"{error.reason}; legal: {error.legal}")
        return BAD
    except ConfigError as error:
        say(error)
        return BAD
    except OSError as error:
        say(f"{options.trace}: cannot be written ({error.strerror or error}); legal: a file in a folder that exists")
        return BAD
    sys.stdout.write(json.dumps(asdict(found), indent=2) + "\n" if options.format == "json" else _table(found))
    return DONE


def _table(found: Estimate) -> str:
    """For a person."""
    waves = f"{found.waves} wave{'s' if found.waves > 1 else ''} of {found.wave_cycles:,} cycles (last {found.last_cycles:,})"
    lines = [
        f"{found.tile}: {found.m} x {found.n} x {found.k} on {found.config}",
        f"  CTAs {found.ctas:,}, {found.resident} on an SM at a time, {waves}",
        f"  main loop {found.iteration_cycles:,.0f} cycles an iteration and CTA",
        f"  kernel {found.cycles:,} cycles, with the launch {found.time_us:,.1f} us: {found.tflops:,.0f} TFLOPS (pruned products counted)",
        f"  bound by: {found.bound}",
    ]
    lines += [
        f"    {name:<14} {share:6.1%}{' of the slots are empty' if name == 'waves' else ''}"
        for name, share in found.shares.items()
    ]
    return "\n".join(lines) + "\n"
