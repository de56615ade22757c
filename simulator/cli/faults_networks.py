"""The action `tcsim faults network`: faults in the 2:4 layers of a network that comes with tcsim."""

from __future__ import annotations

import argparse
from typing import Any

from simulator.cli.answer import Meter
from simulator.cli.verbs import positive

SITES = ("values", "metadata", "activations", "selector", "accumulator", "d")
TYPES = ("f16", "bf16", "s8", "e4m3")
NAMES = ("digits_mlp", "digits_cnn", "digits_transformer")


def configure(actions: Any) -> None:
    """Adds the action to those of `tcsim faults`."""
    parser = actions.add_parser("network", help="faults in the 2:4 layers of a network: what they cost in accuracy")
    parser.add_argument("network", metavar="NETWORK", choices=NAMES, help=", ".join(NAMES))
    parser.add_argument("--layer", action="append", metavar="NAME", help="may be repeated (default: each 2:4 layer)")
    parser.add_argument("--site", action="append", choices=SITES, help="may be repeated (default: each)")
    parser.add_argument("--type", action="append", choices=TYPES, help="of the layer; may be repeated (default: each)")
    parser.add_argument("--faults", type=count, default=200, metavar="N|all", help="of each group (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0)")
    parser.add_argument("--model", choices=("flip", "stuck0", "stuck1", "word"), default="flip")
    parser.add_argument("--bits", type=positive, default=1, help="neighbouring bits of a fault (default 1)")
    parser.add_argument("--images", type=positive, default=0, help="how many of the test images (default: all 384)")
    parser.add_argument("--storage", choices=("cusparselt", "torch", "cutlass.sm80"), default="cusparselt")
    parser.add_argument("--target", default="sm_90a", help="the chip whose arithmetic adds (default sm_90a)")
    parser.add_argument("--prune", action="store_true", help="prune layers that are not 2:4")
    parser.add_argument("--by-bit", action="store_true", help="a line for each bit that faults concern")
    parser.add_argument("--rows", metavar="FILE.csv", help="write a row for each fault, too")
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")


def count(text: str) -> int:
    """A number of faults; 0 stands for all."""
    return 0 if text == "all" else positive(text)


def execute(options: argparse.Namespace) -> str:
    """The text of `tcsim faults network`."""
    from simulator.files import complete
    from simulator.studies.faults.networks import losses, shipped
    from simulator.studies.faults.networks.subject import NumpySubject
    from simulator.tables import render

    given = shipped.digit_images(options.images)
    subject = NumpySubject(shipped.network(options.network), given.images, given.labels)
    asked = losses.Asked(
        layers=options.layer or shipped.NETWORKS[options.network].sparse,
        types=options.type or _types(options.storage),
        sites=options.site or SITES,
        faults=options.faults or None,
        seed=options.seed,
        model=options.model,
        bits=options.bits,
        target=options.target,
        storage=options.storage,
        pruned=not options.prune,
    )
    with Meter() as show:
        groups = list(losses.study(subject, asked, show))
    if options.rows:
        with complete(options.rows) as stream:
            stream.write(losses.fault_rows(groups).csv().encode())
    if options.by_bit:
        groups = [part for group in groups for part in group.by_bit()]
    if options.format == "table":
        return losses.text(options.network, groups, asked)
    return render(losses.table(groups), options.format)


def _types(storage: str) -> tuple[str, ...]:
    """The types that a storage has: PyTorch's has no e4m3."""
    return tuple(name for name in TYPES if (storage, name) != ("torch", "e4m3"))
