"""`tcsim gemm` with matrices: values, error and time of a product as cuSPARSELt computes it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from simulator.cli import matrices, say
from simulator.cli.answer import UnreadableError, answer
from simulator.cli.config_option import choose_config

if TYPE_CHECKING:
    from simulator.chip.config import Config
    from simulator.studies.gemm.kinds import AnyTile
    from simulator.studies.sparselt.cost import Cost
    from simulator.studies.sparselt.product import Product

_FILES = {"a": "--key", "b": "--b-key", "c": "--c-key", "bias": "--bias-key"}
"""Options of files, and those that name an array of an .npz."""
_KEYS = {name: option.removeprefix("--").replace("-", "_") for name, option in _FILES.items()}
_NEEDS_MATRICES = (
    *("b", "c", "bias", "prune", "relu", "gelu", "output", "c_type", "d_type", "library"),
    *_KEYS.values(),
)
_STEPS = {"rounding": "rounding to types", "pruning": "pruning", "arithmetic": "arithmetic", "total": "together"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a product of given matrices takes."""
    group = parser.add_argument_group("with matrices")
    for name, what in (
        ("a", "A [m, k]"),
        ("b", "B [n, k]"),
        ("c", "C [m, n]"),
        ("bias", "[m], added to the rows of D"),
    ):
        several = f"(one array, or the one that {_FILES[name]} names)"
        group.add_argument(f"--{name}", metavar="FILE", help=f"{what}: .npy, or .npz {several}")
    for name, option in _FILES.items():
        group.add_argument(option, metavar="NAME", help=f"array of the .npz of --{name}")
    group.add_argument("--prune", metavar="ALGORITHM", help="prune A first: strip, tile or one of PyTorch's")
    group.add_argument("--alpha", type=float, default=1.0, help="default 1")
    group.add_argument("--beta", type=float, default=None, help="default 1 with --c, else 0")
    group.add_argument("--relu", action="store_true")
    group.add_argument("--gelu", action="store_true")
    group.add_argument("--c-type", metavar="TYPE", help="of C (default as A; bf16 for 8-bit floats)")
    group.add_argument("--d-type", metavar="TYPE", help="of D (default as C)")
    group.add_argument("--compute", choices=("32f", "32i", "16f"), help="default 32f, 32i for s8; 16f: f16 sums")
    group.add_argument("--split-k", type=int, default=1, metavar="N", help="slices of K (default 1); -1: segment-K")
    group.add_argument(
        "--library",
        metavar="VERSION",
        help="version of cuSPARSELt whose table says which types the chip takes: 0.8.1 or 0.10.0 (default)",
    )
    group.add_argument("--output", metavar="FILE", help="D (.npy), or D and the exact result (.npz)")


def wanted(options: argparse.Namespace) -> bool:
    """Whether there are matrices, or options that need them."""
    return options.a is not None or any(getattr(options, name) for name in _NEEDS_MATRICES)


def execute(options: argparse.Namespace) -> int:
    return answer(lambda: _multiply(options), [options.output])


def accumulator(options: argparse.Namespace) -> str:
    """The type of the accumulators that --compute asks for; "" for the type's own."""
    return "f16" if options.compute == "16f" else ""


def shape(options: argparse.Namespace, m: int, n: int, k: int) -> tuple[AnyTile, list[str]]:
    """The tile that the options name, or that of the fastest kernel that a search finds, and a line that says so."""
    from simulator.studies.gemm import fastest, tile_for
    from simulator.studies.sparselt.multiply import slices_of

    how: dict[str, Any] = {
        "sparse": not options.dense,
        "accumulator": accumulator(options),
        "warps": _pair(options.warps, "--warps", "WMxWN, e.g. 2x4"),
        "stages": options.stages,
        "kind": options.kind,
        "cluster": _pair(options.cluster, "--cluster", "CMxCN, e.g. 4x2"),
        "path": options.path,
        "schedule": options.schedule,
    }
    if options.tile != "best":
        return tile_for(options.tile, options.type, config=options.config, **how), []
    slices = slices_of(options.split_k, options.type, k)
    found = fastest(options.type, m, n, -(-k // slices), options.config, parts=slices, **how)
    return found.tile, [str(found)]


def when(time: Cost) -> str:
    """The time of a product as libraries are timed, and of a single launch."""
    return f"{time.time_us:,.1f} us in a stream of launches, {time.once_us:,.1f} us launched once"


def limited(time: Cost, config: Config, unit: str = "") -> list[str]:
    """The time where the power limit lowers the clock, in a line; none where it does not."""
    if config.energy is None or time.limited_time_us is None or time.kernel.power_w is None:
        return []
    speed = f": {time.limited_tflops:,.0f} {unit}" if unit else ""
    return [
        (
            f"    at the power limit about {time.limited_time_us:,.1f} us{speed} ({time.kernel.power_w:,.0f} W are "
            f"above {config.energy.limit_w:,.0f} W, which lowers the clock to about {time.limited_clock_mhz:,.0f} MHz)"
        )
    ]


def assumed(time: Cost) -> list[str]:
    """A line for each thing that the time rests on although nobody measured or published it."""
    return [f"assumed: {line.replace('] assumed: ', '] ', 1)}" for line in time.assumed]


def _pair(text: str | None, option: str, legal: str) -> tuple[int, int] | None:
    """Two numbers with an x between them; None for an option that is not given."""
    if text is None:
        return None
    parts = text.split("x")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise UnreadableError(f"{option} '{text}' is not a pair of numbers", legal)
    return int(parts[0]), int(parts[1])


def _named(options: argparse.Namespace) -> list[tuple[str | None, str | None, str]]:
    """Of each matrix its file, the array in it, and the option that names that."""
    found = []
    for name, option in _FILES.items():
        path, key = getattr(options, name), getattr(options, _KEYS[name])
        if key is not None and path is None:
            raise UnreadableError(f"{option} '{key}' without a file", f"--{name} FILE.npz {option} {key}")
        found.append((path, key, option))
    return found


def _multiply(options: argparse.Namespace) -> str:
    from isa import IsaError
    from simulator.studies.sparselt.multiply import matmul
    from simulator.studies.sparselt.support import DEFAULT_LIBRARY

    if options.a is None or options.b is None:
        raise IsaError("", -1, "a product of one matrix, or of none", "--a FILE and --b FILE")
    if options.relu and options.gelu:
        raise IsaError("", -1, "--relu and --gelu", "one of them")
    for name in ("trace", "kernel"):
        if getattr(options, name):
            raise IsaError("", -1, f"--{name} with matrices", f"--{name} without --a")
    if options.type == "tf32":
        options.type = "f32"  # the library's name
    if options.output:
        matrices.check_output(options.output)
    choose_config(options)
    a, b, c, bias = (
        None if path is None else matrices.read_one(path, key, option) for path, key, option in _named(options)
    )
    assert a is not None
    assert b is not None
    for name, matrix in (("A", a), ("B", b)):
        if matrix.ndim not in (2, 3):
            raise IsaError("", -1, f"{name} has shape {matrix.shape}", "[rows, columns] or [batch, rows, columns]")
    tile, search = shape(options, a.shape[-2], b.shape[-2], a.shape[-1])
    product = matmul(
        a,
        b,
        c,
        type=options.type,
        c_type=options.c_type,
        d_type=options.d_type,
        compute=options.compute,
        alpha=options.alpha,
        beta=(1.0 if c is not None else 0.0) if options.beta is None else options.beta,
        bias=bias,
        activation="relu" if options.relu else "gelu" if options.gelu else None,
        sparse=None if options.dense else "a",
        split_k=options.split_k,
        tile=tile,
        config=options.config,
        strict=False,
        library=options.library or DEFAULT_LIBRARY,
        prune=options.prune,
    )
    if options.output:
        assert product.exact is not None
        arrays: dict[str, Any] = {"d": product.d, "exact": product.exact}
        matrices.write(options.output, {"d": product.d} if options.output.endswith(".npy") else arrays)
    for note in (*product.notes, *search):
        say(note)
    return _text(product, a.shape, b.shape, options)


def _text(product: Product, a: tuple[int, ...], b: tuple[int, ...], options: argparse.Namespace) -> str:
    summary, time = product.summary(), product.cost
    assert time is not None
    chip = options.config
    found = {
        "m": a[-2],
        "n": b[-2],
        "k": a[-1],
        "type": options.type,
        "d_type": product.d_type,
        "config": chip.name,
        "config_path": chip.own_path,
        "config_overrides": chip.overridden,
        "tile": str(time.kernel.tile),
        "library": None if options.dense else product.library,
        **summary,
        "rounding": {name: of.to_dict() for name, of in product.rounding.items()},
        "cycles": time.cycles,
        "kernel_cycles": time.kernel.cycles,
        "reduction_cycles": time.reduction_cycles,
        "epilogue_cycles": time.epilogue_cycles,
        "time_us": time.time_us,
        "once_us": time.once_us,
        "limited_clock_mhz": time.limited_clock_mhz,
        "limited_time_us": time.limited_time_us,
        "notes": list(product.notes),
        "assumed": list(time.assumed),
    }
    if options.format == "json":
        return json.dumps(found, indent=2) + "\n"
    nan = f", {summary['nan']:,} NaN" if summary["nan"] else ""
    mean = "no exact value is a number"
    if summary["mean_ulp"] is not None:
        mean = f"{summary['right']:.2%} as exact{_of(product, options)}, mean {summary['mean_ulp']:.3g} ulp"
        mean += f", largest {summary['largest_ulp']:,}"
    lines = [
        f"{found['m']} x {found['n']} x {found['k']} {options.type} -> {product.d_type} on {chip.label}",
        *_listed(product, options),
        f"  values: {summary['elements']:,} elements{nan}; {mean}",
        f"    from exact: {product.error}",
        *_lost(product),
        f"  time: {time.cycles:,} cycles, {when(time)} ({found['tile']})",
        *limited(time, chip),
        f"    kernel {time.kernel.cycles:,}, slices of K {time.reduction_cycles:,}, reading C {time.epilogue_cycles:,}",
        *(f"    {line}" for line in assumed(time)),
    ]
    return "\n".join(lines) + "\n"


def _listed(product: Product, options: argparse.Namespace) -> list[str]:
    """Which version of the library takes the types on the chip."""
    if options.dense:
        return []
    return [f"  types: as cuSPARSELt {product.library} lists them for {options.config.target} (published)"]


def _of(product: Product, options: argparse.Namespace) -> str:
    """Whose exact product D is compared with, element by element."""
    done = [
        *(["rounded"] if any(of.rounded for of in product.rounding.values()) else []),
        *(["pruned"] if options.prune else []),
    ]
    return f" for the {' and '.join(done)} matrices" if done else ""


def _lost(product: Product) -> list[str]:
    """What D lacks of the product of the matrices as they were given."""
    losses = {name: loss for name, loss in product.losses.items() if loss is not None}
    if not losses:
        return []
    wide = max(len(_STEPS[name]) for name in losses)
    shown = [f"    {_STEPS[name]:<{wide}}  {loss}" for name, loss in losses.items()]
    return ["  error against the product of the matrices as given, in float64", *shown]
