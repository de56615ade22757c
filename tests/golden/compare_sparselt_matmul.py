"""Compare products of `simulator.sparselt` with those of cuSPARSELt.

    python -m tests.golden.compare_sparselt_matmul [FOLDER]

FOLDER holds `cusparselt.npz` and `cusparselt.json` (cuSPARSELt 0.8 on an NVIDIA H100: 12 sets of types, seven
epilogues) or `cusparselt_matmul.npz` and `.json`; without it, the part of the latter that lies here. Prints a line for
each set of types: elements that differ from the library's, how far both are from the exact results, and the epilogue
alone, applied to the library's own plain results where those are the accumulators; then whether the same combinations
are accepted. Exit status 1 if anything differs, 2 if there is nothing to read.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.types import ELEMENT_TYPES
from simulator.arithmetic.formats import ulp_distance
from simulator.studies.sparselt.descriptors import MatmulDescriptor, MatrixDescriptor
from simulator.studies.sparselt.multiply import matmul
from simulator.studies.sparselt.product import Product
from simulator.studies.sparselt.vocabulary import COMPUTE, gelu_status, type_status, vector_status
from tests.support.paths import ROOT

Arrays = dict[str, NDArray[Any]]
COMPUTES = {"f32": "32f", "i32": "32i", "f16": "16f"}
TYPES = ("f32", "f16", "bf16", "s8", "s32", "e4m3", "e5m2", "e2m1")
_RELU = {"activation": "relu", "relu_threshold": 0.25, "relu_upper_bound": 2.5}
_EPILOGUES: dict[str, dict[str, Any]] = {  # of the first recordings
    "plain": {},
    "alphabeta": {"alpha": 0.75, "beta": -1.5},
    "relu": _RELU,
    "bias": {"bias": "bias"},
    "gelu": {"activation": "gelu"},
    "alphavec": {"alpha": "alphavec"},
    "biasrelu": {"alpha": 0.5, "beta": 1.0, "bias": "bias", "activation": "relu", "relu_upper_bound": 3e38},
}
_ALPHA, _BETA = {"alpha": 0.7310586}, {"beta": -1.3}  # of the second; alpha 0.0137 for s8
_MORE: dict[str, dict[str, Any]] = {
    "plain": {},
    "ab": _ALPHA | _BETA,
    "bias": _ALPHA | {"bias": "bias"},
    "abbias": _ALPHA | _BETA | {"bias": "bias"},
    "relu": _ALPHA | _RELU,
    "reluneg": _ALPHA | {"activation": "relu", "relu_threshold": -1.0, "relu_upper_bound": 0.5},
    "abbiasrelu": _ALPHA | _BETA | {"bias": "bias"} | _RELU,
    "reluplain": {"activation": "relu"},
    "gelu": {"activation": "gelu"},
    "geluscale": {"activation": "gelu", "gelu_scale": 0.37},
    "gelubias": _ALPHA | _BETA | {"bias": "bias", "activation": "gelu"},
    "av": {"alpha": "alphavec"} | _BETA,
    "avbiasrelu": {"alpha": "alphavec", "bias": "bias"} | _BETA | _RELU,
    "avbv": {"alpha": "alphavec", "beta": "betavec"},
    "avgelu": {"alpha": "alphavec", "activation": "gelu"},
    "ascale": {},  # scale factors, which the library takes on an H100 and does not apply
    "bscale": {},
    "dscale": {},
    "doutscale": {},
    "big": {},
    "bigab": {"alpha": 1.7, "beta": 0.3},
    "bigrelu": {"activation": "relu"},
    "biggelu": {"activation": "gelu"},
    "bigbias": {"alpha": 0.37, "bias": "bias"},
    "bigclip": _RELU,
}


@dataclass
class Tally:
    """What was found for a set of types."""

    cases: int = 0
    elements: int = 0
    differ: int = 0
    gelu_differ: int = 0
    alone: int = 0
    alone_differ: int = 0
    ours: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    theirs: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def _arguments(options: dict[str, Any], data: Arrays, base: str, type: str, second: bool) -> dict[str, Any]:
    """Keywords of `matmul`, with the arrays that they name."""
    found = {
        key: data[f"{base}|{value}"] if key in ("bias", "alpha", "beta") and isinstance(value, str) else value
        for key, value in options.items()
    }
    if second and type == "s8" and isinstance(found.get("alpha"), float) and found["alpha"] == _ALPHA["alpha"]:
        found["alpha"] = 0.0137
    c_type = base.split("|")[2]
    if not second and type == "s8" and c_type in ("f16", "bf16") and "bias" in found:
        found["bias"] = found["bias"].view(np.uint16)[
            : len(found["bias"])
        ]  # the library read its f32 words as C's type
    return found


def cases(data: Arrays) -> Iterator[tuple[str, str, NDArray[Any], Product]]:
    """(set of types, name, D of the library, product) of every recorded product."""
    for key in data:
        kind, *words = key.split("|")
        if words[-1] != "D" or kind not in ("matmul", "mm", "batch", "sparseb", "cfg"):
            continue
        base, name, (type, c_type, d_type, compute) = "|".join([kind, *words[:4]]), words[4], words[:4]
        kept: dict[str, Any] = {
            "type": type,
            "c_type": c_type,
            "d_type": d_type,
            "compute": COMPUTES[compute],
            "strict": False,
        }
        big = "2" if name.startswith("big") else ""
        a, b = data[f"{base}|A{big}"], data[f"{base}|B{big}"]
        c = data.get(f"{base}|C{big}")
        if kind in ("matmul", "mm"):
            options = (_EPILOGUES if kind == "matmul" else _MORE)[name]
            kept |= _arguments(options, data, base, type, kind == "mm")
        elif kind == "cfg":
            c, kept["split_k"] = None, 1 if name == "split1" else -1
        else:
            kept |= {"beta": 0.5, "bias": data[f"{base}|bias"], "sparse": "b" if kind == "sparseb" else "a"}
            if kind == "batch":
                a, b = a[:1] if name == "abroad" else a, b[:1] if name == "bbroad" else b
                kept["bias"] = kept["bias"][0] if name == "abroad" else kept["bias"]
        yield base, name, data[key], matmul(a, b, c, **kept)


def _alone(data: Arrays, base: str, name: str, kind: str) -> tuple[int, int]:
    """Elements, and how many differ, of the epilogue applied to the library's plain result; (0, 0) where that is not
    the accumulators."""
    from simulator.studies.sparselt.epilogue import Epilogue, finish
    from simulator.studies.sparselt.product import values_of
    from simulator.studies.sparselt.vocabulary import bias_type

    type, c_type, d_type, compute = base.split("|")[1:]
    if d_type not in ("f32", "s32") and compute != "f16":
        return 0, 0
    big = "2" if name.startswith("big") else ""
    if big and compute == "f16":
        return 0, 0  # its plain result has +0 where the accumulators are minus infinity
    plain = data[f"{base}|{'big' if big else 'plain'}|D"]
    options = _arguments((_EPILOGUES if kind == "matmul" else _MORE)[name], data, base, type, kind == "mm")
    alpha, beta = (
        np.asarray(options.get(key, default), np.float32).reshape(-1) for key, default in (("alpha", 1), ("beta", 0))
    )
    beta = np.zeros(1, np.float32) if alpha.size > 1 and beta.size == 1 else beta
    bias = options.get("bias")
    column = None if bias is None else values_of(bias, bias_type(type, c_type, d_type)).astype(np.float32)[:, None]
    c = values_of(data[f"{base}|C{big}"], c_type).astype(np.float32) if beta.any() else None
    epilogue = Epilogue(
        alpha,
        beta,
        c,
        column,
        options.get("activation"),
        options.get("relu_upper_bound", np.inf),
        options.get("relu_threshold", 0.0),
        options.get("gelu_scale", 1.0),
        compute == "f16",
        type in ("e4m3", "e5m2"),
    )
    found = finish(values_of(plain, d_type).astype(np.float32), epilogue, d_type)
    return found.size, int((found != data[f"{base}|{name}|D"]).sum())


def tallies(data: Arrays) -> dict[str, Tally]:
    """By set of types."""
    found: dict[str, Tally] = defaultdict(Tally)
    for base, name, theirs, product in cases(data):
        kind = base.split("|")[0]
        tally = found[base]
        apart = int((product.d != theirs).sum())
        tally.cases += 1
        tally.elements += theirs.size
        tally.differ += apart if "gelu" not in name else 0
        tally.gelu_differ += apart if "gelu" in name else 0
        if kind in ("matmul", "mm") and name not in ("plain", "big"):
            count, wrong = _alone(data, base, name, kind)
            tally.alone += count
            tally.alone_differ += wrong
        assert product.exact is not None
        element = ELEMENT_TYPES[product.d_type]
        exact = product.exact.astype(np.uint32)
        for counts, d in ((tally.ours, product.d), (tally.theirs, theirs)):
            distance = ulp_distance(d.astype(np.uint32), exact, element)
            for bound, number in zip(*np.unique(_bucket(distance), return_counts=True), strict=True):
                counts[int(bound)] += int(number)
    return found


def _bucket(distance: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2, 16, 4096, or more: the next bound."""
    bounds = np.array([0, 1, 2, 16, 1 << 12, 1 << 20])
    return bounds[np.minimum(np.searchsorted(bounds, distance), len(bounds) - 1)]


def wrong_verdicts(log: list[list[Any]]) -> list[str]:
    """Combinations that are answered here with another status than by the library, one line each."""
    found = []
    for key, status, *_ in log:
        ours = _verdict(key.split("|"))
        if ours is not None and isinstance(status, int) and ours != status:
            found.append(f"{key}: cuSPARSELt {status}, here {ours}")
    return found


def verdicts(log: list[list[Any]]) -> int:
    """How many combinations of a log are compared."""
    return sum(_verdict(key.split("|")) is not None and isinstance(status, int) for key, status, *_ in log)


def _verdict(words: list[str]) -> int | None:
    """What we answer to a combination of the log: 0 accepted, else refused; None where nothing is to say."""
    kind, rest = words[0], words[1:]
    if kind in ("matmul", "mm") and len(rest) == 5:
        a, c, d, compute, name = rest
        status = type_status(a, c, d, COMPUTES[compute])
        activation = gelu_status(a, d) if "gelu" in name else 0
        vector = vector_status(a) if name.startswith(("av", "alphavec")) else 0
        return status or activation or vector
    if kind == "types":
        a, b, c, d, compute = rest
        return 10 if a != b else type_status(a, c, d, COMPUTES[compute])
    if kind in ("layout", "shape", "shapeb", "desc"):
        return _described(kind, rest)
    return None


def _described(kind: str, words: list[str]) -> int:
    """0 if our descriptors take a layout, a shape or a leading dimension."""
    type, c_type, compute, *rest = words
    op_a, op_b, orders, sparse = "n", "t", "rrr", "a" if kind != "shapeb" else "b"
    m = n = k = 128
    extra: dict[str, int] = {}
    matrix = ""
    if kind == "layout":
        op_a, op_b = ("nt"[int(x)] for x in rest[0][2:])
        orders, sparse = "".join("cr"[int(x)] for x in rest[1][5:]), rest[2]
    elif kind == "desc":
        given = json.loads(rest[0].replace("'", '"'))
        matrix, extra = (
            ("abc", {"alignment": given["al"]}) if "al" in given else (*given["ld"], {"ld": given["ld"].popitem()[1]})
        )
    else:
        m, n, k = (int(x) for x in rest[0].split("x"))
    try:
        shapes = {"a": (m, k) if op_a == "n" else (k, m), "b": (n, k) if op_b == "t" else (k, n), "c": (m, n)}
        made = {
            name: MatrixDescriptor(
                *shapes[name],
                c_type if name == "c" else type,
                {"r": "row", "c": "col"}[order],
                structured=name == sparse,
                **(extra if name in matrix else {}),
            )
            for name, order in zip("abc", orders, strict=True)
        }
        MatmulDescriptor(made["a"], made["b"], made["c"], made["c"], op_a, op_b, COMPUTES[compute])
    except IsaError as error:
        status = re.search(r"status (\d+)", str(error))
        return int(status[1]) if status else -1
    return 0


def _read(folder: Path) -> Iterator[tuple[str, Arrays, list[list[Any]]]]:
    for name in ("cusparselt", "cusparselt_matmul"):
        if (folder / f"{name}.npz").is_file() and (folder / f"{name}.json").is_file():
            with np.load(folder / f"{name}.npz") as data:
                yield (
                    name,
                    {key: data[key] for key in data.files},
                    unpacked(json.loads((folder / f"{name}.json").read_text())),
                )


def unpacked(stored: dict[str, Any]) -> list[list[Any]]:
    """The log of a file: as it is, or with the statuses of all types in one line (see make_cusparselt_matmul.py)."""
    log: list[list[Any]] = [row for row in stored["log"] if isinstance(row[0], str)]
    if "types" in stored:
        rows = [
            (a, b, c, d, compute)
            for a in TYPES
            for b in (("e4m3", "e5m2") if a in ("e4m3", "e5m2") else (a,))
            for c in TYPES
            for d in TYPES
            for compute in ("i32", "f16", "f32")
        ]
        log += [
            ["|".join(("types", *row)), int(status)] for row, status in zip(rows, stored["types"].split(), strict=True)
        ]
    return log


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    folder = Path(arguments[0]) if arguments else ROOT / "tests" / "golden"
    bad = seen = 0
    try:
        for name, data, log in _read(folder):
            seen += 1
            print(
                f"{name + ': set of types':<46} cases elements differ  GELU  alone differ   ulp: ours | the library's"
            )
            for base, tally in tallies(data).items():
                spread = " | ".join(_spread(counts) for counts in (tally.ours, tally.theirs))
                print(
                    f"  {base:<44} {tally.cases:5} {tally.elements:8} {tally.differ:6} {tally.gelu_differ:5} "
                    f"{tally.alone:6} {tally.alone_differ:6}   {spread}"
                )
                bad += tally.differ + tally.gelu_differ + tally.alone_differ
            wrong = wrong_verdicts(log)
            print(f"  combinations accepted and refused: {verdicts(log):,} statuses compared, {len(wrong)} differ")
            for line in wrong[:20]:
                print(f"    {line}")
            bad += len(wrong)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        print(f"{folder}: cannot be read ({error})", file=sys.stderr)
        return 2
    if not seen:
        print(f"{folder}: no cusparselt.npz or cusparselt_matmul.npz with its .json", file=sys.stderr)
        return 2
    return 1 if bad else 0


def _spread(counts: dict[int, int]) -> str:
    """Shares of elements by distance."""
    total = max(sum(counts.values()), 1)
    label = {0: "0", 1: "1", 2: "2", 16: "<=16", 1 << 12: "<=4096", 1 << 20: "more"}
    return " ".join(f"{label[bound]}:{counts[bound] / total:.2%}" for bound in sorted(counts))


assert set(COMPUTES.values()) == set(COMPUTE)

if __name__ == "__main__":
    sys.exit(main())
