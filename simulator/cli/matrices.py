"""Matrices in files, for the verbs `prune`, `compress` and `convert`: .npy and .npz, never pickled objects."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.answer import UnreadableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ARRANGEMENT = """\
A file holds the matrix as [row, column]. --order, --op and --operand say, as cuSPARSELt's descriptors do, how it lies
in memory, whether the product transposes it, and which operand it is: together they say which way K runs."""


def add_arrangement(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the library's descriptors."""
    parser.add_argument("--order", choices=("row", "col"), default="row", help="of the matrix in memory (default row)")
    parser.add_argument("--op", choices=("n", "t"), default="n", help="operation on it in the product (default n)")
    parser.add_argument("--operand", choices=("a", "b"), default="a", help="which one is sparse (default a)")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the file that is read."""
    parser.add_argument("input", metavar="FILE", help=".npy, or .npz (one array, or the one that --key names)")
    parser.add_argument("--key", metavar="NAME", help="array of an .npz")


def read(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name: {"": array} for .npy. UnreadableError if it cannot be read, or holds objects."""
    from simulator.inputs import ArrayFile

    legal = "a .npy or .npz file of numbers"
    if Path(path).suffix not in (".npy", ".npz"):
        raise UnreadableError(f"{path}: the name says no format", legal)
    file = ArrayFile(path, legal)
    return {name: file.read(name) for name in file.names}


def read_one(path: str, key: str | None, option: str = "--key") -> NDArray[Any]:
    """One array of a file. UnreadableError if there is none of that name, or several and no name was given; it names
    the option that names an array."""
    arrays = read(path)
    if key is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if key is None or key not in arrays:
        what = f"no array '{key}'" if key is not None else f"{len(arrays)} arrays"
        raise UnreadableError(f"{path}: {what}", f"{option} with one of: {', '.join(map(repr, arrays))}")
    return arrays[key]


def check_output(path: str) -> None:
    """UnreadableError if the name of an output says no format; called before anything is computed."""
    if Path(path).suffix not in (".npy", ".npz"):
        raise UnreadableError(f"{path}: the name says no format", "a name that ends in .npy or .npz")


def write(path: str, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Writes arrays, completely or not at all: one to .npy, any number to .npz. UnreadableError for several in .npy."""
    import numpy as np

    from simulator.files import complete, write_arrays

    if Path(path).suffix == ".npy" and len(arrays) != 1:
        raise UnreadableError(f"{path}: {' and '.join(arrays)} are {len(arrays)} arrays", "a name that ends in .npz")
    if Path(path).suffix != ".npy":
        write_arrays(path, {name or "data": array for name, array in arrays.items()})
        return
    with complete(path) as stream:
        np.save(stream, next(iter(arrays.values())), allow_pickle=False)
