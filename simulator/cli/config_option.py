"""The options `--config` and `--set`, which every verb that asks about a chip has."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simulator.cli.answer import UnreadableError

if TYPE_CHECKING:
    from simulator.chip.config import Config

DEFAULT = "h100_sxm"
NONE = "none"


def add_config(
    parser: argparse.ArgumentParser,
    words: str = f"the GPU: a config that comes with tcsim, or a TOML file (default {DEFAULT})",
    default: str | None = DEFAULT,
) -> None:
    """Adds both options to a verb's parser."""
    parser.add_argument("--config", default=default, help=words)
    add_set(parser)


def add_set(parser: argparse.ArgumentParser) -> None:
    """Adds `--set` to a verb's parser."""
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a value of the config, such as tensor.sparse_full_k.interval=4 or l2.read_bytes=x2; may be repeated; "
        "'tcsim config' lists the keys",
    )


def choose_config(options: argparse.Namespace) -> None:
    """Loads the config that the options name, with what they set, in place of its name.

    Raises:
        ConfigError: no such config, or values that it cannot have.
        UnreadableError: something is set, but no config is named.
    """
    if options.config in (None, NONE):
        if options.overrides:
            raise UnreadableError(f"--set {options.overrides[0]} without a config", "--config NAME with --set")
    elif isinstance(options.config, str):
        options.config = config_named(options.config, options)


def config_named(name: str, options: argparse.Namespace) -> Config:
    """A config with what the options set; errors as `choose_config`."""
    from simulator.chip.config import load_config

    if name == NONE:
        raise UnreadableError("limits without a config", "--config NAME, such as h100_sxm")
    return load_config(name, options.overrides)
