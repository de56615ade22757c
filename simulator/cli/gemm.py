"""`tcsim gemm`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from simulator.cli import product, say
from simulator.cli.answer import Meter, UnreadableError, answer
from simulator.cli.config_option import add_config, choose_config

if TYPE_CHECKING:
    from simulator.studies.gemm import Estimate
    from simulator.studies.gemm.kinds import AnyTile
    from simulator.studies.sparselt.cost import Cost

DESCRIPTION = """\
What D[m][n] = A[m][k] * B[n][k]^T costs on a chip. The kernel of a tile is written as a trace and run on one SM with
its share of L2: the first CTAs of an SM in step, those that follow in their places out of step with each other. A is
sparse (2:4; tf32 1:2, 4-bit types 4:8 in pairs) unless --dense is given. Matrices are filled up to whole tiles.

Chips with tcgen05 (b200, b300, jetson_thor) multiply by tcgen05.mma: bulk copies into swizzled shared memory, D in
Tensor Memory, persistent CTAs, alone (tiles of 128 rows) or in pairs (256 rows). Hopper (h100_sxm, h200, h800_pcie) by
wgmma: tensor maps, persistent CTAs in which one warpgroup loads and two multiply. All others, and --path mma, by mma
and mma.sp: cp.async, ldmatrix, D in registers. docs/gemm.md has all.

Times are those of one of many launches in a stream, as libraries are timed, and beside them those of a single launch
from the host ([launch] gap_ns and overhead_ns of the config).

--trace FILE writes the kernel of one CTA, or pair, as a trace and stops; --kernel FILE the kernel by wgmma as PTX.

With matrices (--a, --b) it multiplies them as cuSPARSELt does on that chip: values, error and time.
docs/sparselt_matmul.md has the whole story.
"""
EPILOG = """\
examples:
  tcsim gemm --tile 128x256                               time of 4096 x 4096 x 4096
  tcsim gemm --type e4m3 --config rtx4090 --tile best     the same of FP8 on another chip
  tcsim gemm --config b200 --dense                        tcgen05.mma by pairs of CTAs
  tcsim gemm --config b200 --type e2m1 --kind mxf4nvf4    sparse NVFP4, with scale factors
  tcsim gemm --a W.npy --b x.npy --prune strip --bias bias.npy --relu --output y.npy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    for name, what in (("m", "rows of A and D"), ("n", "rows of B, columns of D"), ("k", "columns of A and B")):
        parser.add_argument(f"--{name}", type=int, default=4096, help=f"{what} (default 4096)")
    parser.add_argument(
        "--type",
        default="f16",
        help="of A and B: f16 (default), bf16, tf32 (or f32, the library's name), e4m3, e5m2, s8, u8; by mma also s4, "
        "u4, with --dense b1; on sm_120 and by tcgen05 e3m2, e2m3, e2m1. The accumulators are f32 or s32; by mma f16 "
        "with --compute 16f",
    )
    parser.add_argument(
        "--tile",
        default="",
        metavar="BMxBN[xBK]",
        help="what a CTA (by tcgen05 with 256 rows: a pair) computes, and columns of K in an iteration (default "
        "128x128, by tcgen05 256x256, of 128 bytes of K); best: the fastest of eight, with the stages and CTAs per SM "
        "that suit it",
    )
    parser.add_argument(
        "--warps", metavar="WMxWN", help="by mma: warps along M and N (default: one for each 64 x 64, at least 4)"
    )
    parser.add_argument(
        "--stages",
        type=int,
        default=None,
        help="tiles in shared memory (default: as many as fit, up to 4, by tcgen05 up to 6, by wgmma 12)",
    )
    parser.add_argument(
        "--kind",
        default="",
        metavar="KIND",
        help="by tcgen05 and on sm_120: the instruction's kind, where the type has several: f8f6f4 (default) or, with "
        "block scales, mxf8f6f4 of 8, 6 and 4 bits; mxf4, mxf4nvf4 of e2m1",
    )
    parser.add_argument(
        "--cluster",
        metavar="CMxCN",
        help="by wgmma and tcgen05: CTAs along M and N that share what they read from L2 (default: 1x1, by tcgen05 "
        "up to 4x2)",
    )
    parser.add_argument(
        "--path",
        default="",
        choices=("mma", "wgmma", "tcgen05"),
        help="the instruction that multiplies (default: as libraries do on the chip: tcgen05 on Blackwell, wgmma on "
        "Hopper, else mma; mma for what these do not have)",
    )
    parser.add_argument(
        "--schedule",
        default="",
        choices=("cooperative", "pingpong"),
        help="by wgmma: two warpgroups share a tile, or each has its own, and one multiplies while the other stores "
        "(default: pingpong for tiles of 64 and 192 rows)",
    )
    parser.add_argument("--dense", action="store_true", help="A is dense: mma, tcgen05.mma without .sp")
    add_config(parser)
    parser.add_argument("--trace", metavar="FILE", help="write the kernel by mma or tcgen05 as a trace")
    parser.add_argument("--kernel", metavar="FILE", help="write the kernel by wgmma as PTX, which a Hopper GPU runs")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    product.add_options(parser)


def execute(options: argparse.Namespace) -> int:
    if product.wanted(options):
        return product.execute(options)
    if options.trace or options.kernel:
        return answer(lambda: _kernel(options), output=options.trace or options.kernel)
    return answer(lambda: _estimate(options))


def _kernel(options: argparse.Namespace) -> str:
    from simulator.studies.gemm import Tcgen05Tile, WgmmaTile, kernel_trace, tcgen05_trace, wgmma_kernel

    choose_config(options)
    target = options.config.target
    tile, _ = product.shape(options, options.m, options.n, options.k)
    if options.trace and options.kernel:
        raise UnreadableError("--trace and --kernel", "one of them")
    if isinstance(tile, WgmmaTile) is not bool(options.kernel):
        reason = f"--{'kernel' if options.kernel else 'trace'} of {tile}"
        legal = "--kernel for kernels by wgmma, --trace for all others (--path chooses)"
        raise UnreadableError(reason, legal)
    if isinstance(tile, WgmmaTile):
        return wgmma_kernel(tile, str(target))
    if isinstance(tile, Tcgen05Tile):
        return tcgen05_trace(tile, options.k, target=target)
    return kernel_trace(tile, options.k, target=target)


def _estimate(options: argparse.Namespace) -> str:
    from simulator.studies.sparselt.cost import cost
    from simulator.studies.sparselt.multiply import slices_of

    choose_config(options)
    m, n, k = options.m, options.n, options.k
    slices = slices_of(options.split_k, options.type, k)
    with Meter() as show:
        show.note("simulating the kernel on an SM")
        tile, search = product.shape(options, m, n, k)
        found = cost(tile, m, n, k, options.config, slices=slices, progress=show)
    for line in search:
        say(line)
    if options.format == "table":
        return _table(found, options, options.config.label)
    more = {name: getattr(found, name) for name in _WHOLE}
    kernel = asdict(found.kernel) | {"m": m, "n": n, "k": k, "kernel_cycles": found.kernel.cycles}
    return json.dumps(kernel | more, indent=2) + "\n"


_WHOLE = (
    *("reduction_cycles", "cycles", "time_us", "once_us", "tflops", "assumed"),
    *("limited_clock_mhz", "limited_time_us", "limited_tflops"),
)
"""What JSON has of the whole product, its kernel and what stands around it."""


def _table(cost: Cost, options: argparse.Namespace, config: str) -> str:
    """For a person."""
    found = cost.kernel
    first = f"the first take {found.wave_cycles:,} cycles"
    following = f", each after them {found.next_cycles:,} ({found.waves} in a place)" if found.next_cycles else ""
    time = f"{cost.cycles:,} cycles, {product.when(cost)}"
    lines = [
        f"{found.tile}: {options.m} x {options.n} x {options.k} on {config}",
        f"  CTAs {found.ctas:,}, {found.resident} on an SM at a time: {first}{following}",
        f"  main loop {found.iteration_cycles:,.0f} cycles an iteration and CTA",
        f"  kernel {time}: {cost.tflops:,.0f} {_unit(found.tile)}",
        *product.limited(cost, options.config, _unit(found.tile)),
        *([f"    of them adding slices of K {cost.reduction_cycles:,}"] if cost.reduction_cycles else []),
        *_energy(found),
        f"  bound by: {found.bound}",
    ]
    lines += [
        f"    {name:<15} {share:6.1%}{' of the slots are empty' if name == 'waves' else ''}"
        for name, share in found.shares.items()
    ]
    return "\n".join([*lines, *(f"  {line}" for line in product.assumed(cost))]) + "\n"


def _energy(found: Estimate) -> list[str]:
    """Energy of the kernel, and what takes it."""
    if found.energy is None or found.energy_j is None:
        return []
    return [
        (
            f"  energy {found.energy_j * 1e3:,.3g} mJ, {found.power_w:,.0f} W, {found.tflops_per_watt:.3g} "
            f"{_unit(found.tile).split(' ')[0]}/W, energy times delay {found.edp_js:.3g} Js"
        ),
        f"    of it {found.energy.shares}",
    ]


def _unit(tile: AnyTile) -> str:
    name = "TOPS" if tile.accumulator == "s32" else "TFLOPS"
    return f"{name} (pruned products counted)" if tile.sparse else name
