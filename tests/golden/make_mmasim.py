"""Record what MMA-Sim 2.1.1 computes, for every dense floating-point instruction of NVIDIA's that it models.

    python3 -m venv VENV && VENV/bin/pip install torch==2.13.0 numpy ninja setuptools && VENV/bin/pip install --no-deps
    mmasim==2.1.1 VENV/bin/python -m tests.golden.make_mmasim --subset tests/golden/mmasim.npz
    VENV/bin/python -m tests.golden.make_mmasim --folder DIR --cases 10000        what compare_mmasim.py starts

Run it at the root of the repository, with the Python of an environment that has MMA-Sim; the simulator is not used,
only `isa`'s element types. One torch thread: MMA-Sim works on small tensors.

--subset chooses dot products that tell the right parameters from wrong ones: for each mutation of MMA-Sim's own
parameters (alignment width, step length, smallest exponent, rounding, group) cases whose result changes, and some of
every kind of operands. --folder writes one file for each instruction, and waits while AHEAD of them lie there unread.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.adversarial import KINDS, Width, matrices
from tests.golden.mmasim_cases import Instruction
from tests.golden.probes import probes

VERSION = "2.1.1"
AHEAD = 3  # files that may wait in the folder
CHUNK = 64  # cases that MMA-Sim takes at once: where it is fastest
POOL = 256  # dot products of each kind to choose from
PER_MUTATION = 16  # chosen for each mutation
PER_KIND = 5  # chosen for each kind of operands besides

Cases = NDArray[np.void]


def instructions() -> list[Instruction]:
    """Every instruction; of those of wgmma and tcgen05 that differ in M and N alone, one each (M and N do not enter
    MMA-Sim's arithmetic)."""
    from mmasim.nv_ptx import isa_mma, isa_tcgen05mma, isa_wgmma

    tables = (
        ("mma", isa_mma.mma_shape_and_type),
        ("mma", isa_mma.mma_block_scale_shape_and_type),
        ("wgmma", isa_wgmma.wgmma_shape_and_type),
        ("tcgen05", isa_tcgen05mma.tcgen05mma_shape_and_type),
        ("tcgen05", isa_tcgen05mma.tcgen05mma_block_scale_shape_and_type),
    )
    found: dict[tuple[str, ...], Instruction] = {}
    turn = itertools.count()
    for family, table in tables:
        for architecture, specs in table.items():
            alike: dict[str, list[str]] = {}
            for spec in specs:
                k = (
                    "k" + spec.split(".", maxsplit=1)[0].partition("k")[2]
                    if family != "mma"
                    else spec.split(".", maxsplit=1)[0]
                )
                alike.setdefault(k + "." + spec.partition(".")[2], []).append(spec)
            for key, same in alike.items():
                found[family, architecture, key] = Instruction(family, architecture, same[next(turn) * 7 % len(same)])
    return list(found.values())


def model(instruction: Instruction) -> Any:
    """MMA-Sim's object for an instruction."""
    from mmasim.nv_ptx import sim

    scaled = bool(instruction.block)
    kinds = {
        "mma": (sim.MMA, sim.MMABlockScale),
        "wgmma": (sim.WGMMA,),
        "tcgen05": (sim.TCGen05MMA, sim.TCGen05MMABlockScale),
    }
    return kinds[instruction.family][scaled](instruction.architecture, instruction.spec)


def width(instruction: Instruction) -> Width:
    """What MMA-Sim's object says of its sum."""
    op = model(instruction).arithmetic_op
    kept = 13 if getattr(op, "rho", "") == "RZ-E8M13" else instruction.d_type.fraction
    k = instruction.mnk[2]
    return Width(getattr(op, "F", 53), getattr(op, "e_zero", -1022), min(getattr(op, "L_max", k), k), kept)


def tensor(patterns: NDArray[Any], name: str, packed: bool) -> Any:
    """Patterns [..., k] as a torch tensor of MMA-Sim's type for `name`."""
    import torch
    from mmasim.nv_ptx.isa_common import nv_torch_dtype

    if packed:  # MMA-Sim takes the upper half of a byte first
        patterns = patterns[..., 0::2] << 4 | patterns[..., 1::2]
    signed = torch.from_numpy(np.ascontiguousarray(patterns).view(f"i{patterns.itemsize}"))
    wanted = nv_torch_dtype[name]
    return signed.view(torch.uint8) if wanted == torch.uint8 else signed.view(wanted)


def arguments(instruction: Instruction, cases: Cases) -> list[Any]:
    """The operands of `dpa`: vectors for every result, [case, m, n, k], and so on."""
    m, n = cases["c"].shape[1:]
    rows = {"a": instruction.a_type, "scale_a": instruction.scale_type}
    columns = {"b": instruction.b_type, "scale_b": instruction.scale_type}

    def packed(name: str) -> bool:
        return instruction.packed and name in "ab"

    found = {"c": tensor(cases["c"], instruction.c_type.name, False)}
    for name, element in rows.items():
        if element is not None:
            found[name] = tensor(cases[name], element.name, packed(name))[:, :, None].expand(-1, -1, n, -1)
    for name, element in columns.items():
        if element is not None:
            found[name] = tensor(cases[name].transpose(0, 2, 1), element.name, packed(name))[:, None].expand(
                -1, m, -1, -1
            )
    return [found[name] for name in ("a", "b", "c", "scale_a", "scale_b") if name in found]


def compute(instruction: Instruction, dpa: Callable[..., Any], cases: Cases) -> NDArray[Any]:
    """Patterns of D [case, m, n]."""
    d = np.empty_like(cases["d"])
    for start in range(0, len(cases), CHUNK):
        part = cases[start : start + CHUNK]
        found = dpa(*arguments(instruction, part)).contiguous().numpy()
        d[start : start + CHUNK] = found.view(d.dtype)
    return d


def generator(instruction: Instruction) -> np.random.Generator:
    """The same operands for an instruction whatever else is made."""
    return np.random.default_rng(zlib.crc32(str(instruction).encode()))


def full(instruction: Instruction, count: int) -> Cases:
    """At least `count` cases of all kinds in equal parts, each an instruction: 16 x 8 results (8 x 8 where there are 8
    rows)."""
    m, n = min(instruction.mnk[0], 16), 8
    rng, hints = generator(instruction), width(instruction)
    each = -(-count // len(KINDS))
    cases = np.concatenate([matrices(instruction, hints, kind, rng, each, m, n) for kind in KINDS])
    cases["d"] = compute(instruction, model(instruction).dpa, cases)
    return cases


def mutations(instruction: Instruction) -> Iterator[tuple[str, Callable[..., Any]]]:
    """MMA-Sim's own sum with one parameter changed; those that cannot be told apart are found by not changing
    anything."""
    op = model(instruction).arithmetic_op
    k = instruction.mnk[2]
    if instruction.a_type.bits == 64:
        yield "not fused", lambda a, b, c: _multiply_add(a, b, c, range(k))
        yield "descending", lambda a, b, c: _descending(op, a, b, c)
        return
    changes: list[tuple[str, dict[str, Any]]] = [(f"fraction {by:+d}", {"F": op.F + by}) for by in (-1, 1)]
    changes += [(f"lowest {by:+d}", {"e_zero": op.e_zero + by}) for by in (-1, 1)]
    length = min(op.L_max, k)
    if hasattr(op, "G"):
        changes += [(f"group {group}", {"G": group}) for group in (8, 32) if group <= (instruction.block or k)]
    else:
        changes += [("step halved", {"L_max": length // 2})]
        changes += [("step doubled", {"L_max": length * 2})] if length < k else []
    other = {"RZ-FP32": "RNE-FP32", "RZ-E8M13": "RZ-FP32", "RNE-FP16": "RZ-FP32"}[op.rho]
    changes.append(("rounding", {"rho": other}))
    for name, values in changes:
        mutant = copy.copy(op)
        for attribute, value in values.items():
            setattr(mutant, attribute, value)
        yield name, mutant.dpa if values.get("rho") != "RZ-FP32" or op.rho != "RNE-FP16" else _toward_zero(mutant.dpa)


def _multiply_add(a: Any, b: Any, c: Any, order: range) -> Any:
    for i in order:
        c = a[..., i] * b[..., i] + c
    return c


def _descending(op: Any, a: Any, b: Any, c: Any) -> Any:
    return op.dpa(a.flip(-1), b.flip(-1), c)


def _toward_zero(dpa: Callable[..., Any]) -> Callable[..., Any]:
    """f32 results cut to f16."""
    import torch

    def cut(*operands: Any) -> Any:
        exact = dpa(*operands).float().numpy()
        with np.errstate(over="ignore"):
            near = exact.astype(np.float16)
        above = np.abs(near.astype(np.float32)) > np.abs(exact)
        return torch.from_numpy((near.view(np.int16) - above.astype(np.int16)).view(np.float16))

    return cut


def subset(instruction: Instruction) -> tuple[Cases, dict[str, int]]:
    """Chosen dot products, probes first, and how many of them tell each mutation."""
    rng, hints = generator(instruction), width(instruction)
    base = model(instruction).dpa
    pool = np.concatenate([matrices(instruction, hints, kind, rng, POOL, 1, 1) for kind in KINDS])
    pool["d"] = compute(instruction, base, pool)
    kind = np.repeat(np.arange(len(KINDS)), POOL)
    chosen = [int(i) for number in range(len(KINDS)) for i in np.flatnonzero(kind == number)[:PER_KIND]]
    told = {}
    for name, mutant in mutations(instruction):
        different = np.flatnonzero(differs(instruction, compute(instruction, mutant, pool), pool["d"])[:, 0, 0])
        chosen += [int(i) for i in rng.permutation(different)[:PER_MUTATION]]
        told[name] = different
    order = list(dict.fromkeys(chosen))
    known = probes(instruction)
    known["d"] = compute(instruction, base, known)
    counts = {name: len(set(order) & set(different.tolist())) for name, different in told.items()}
    return np.concatenate([known, pool[order]]), {name: count for name, count in counts.items() if count}


def differs(instruction: Instruction, one: NDArray[Any], two: NDArray[Any]) -> NDArray[np.bool_]:
    """Where results differ; of f64 any NaN is like any other."""
    different: NDArray[np.bool_] = one != two
    if instruction.d_type.bits == 64:
        different &= ~(np.isnan(one.view(np.float64)) & np.isnan(two.view(np.float64)))
    return different


def write(path: Path, arrays: dict[str, NDArray[Any]], *, compress: bool) -> None:
    """Under another name first, so that whoever looks never sees half a file."""
    partial = path.with_name(path.name + ".partial.npz")
    (np.savez_compressed if compress else np.savez)(partial, **arrays)  # type: ignore[arg-type]
    partial.replace(path)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make_mmasim.py", description="Record what MMA-Sim computes.")
    parser.add_argument("--subset", type=Path, help="write chosen dot products to this file")
    parser.add_argument("--folder", type=Path, help="write full cases here, a file for each instruction")
    parser.add_argument("--cases", type=int, default=10_000, help="for each instruction (default 10000)")
    parser.add_argument("--only", default="", help="instructions whose label contains this")
    options = parser.parse_args(given)

    import importlib.metadata

    import torch

    if importlib.metadata.version("mmasim") != VERSION:
        print(f"mmasim {importlib.metadata.version('mmasim')} is installed, {VERSION} is wanted", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    chosen = [instruction for instruction in instructions() if options.only in str(instruction)]
    if options.subset:
        arrays, index = {}, {}
        for instruction in chosen:
            arrays[str(instruction)], index[str(instruction)] = subset(instruction)
        arrays["mutations"] = np.frombuffer(json.dumps(index).encode(), np.uint8)
        write(options.subset, arrays, compress=True)
        print(
            f"{len(chosen)} instructions, {sum(len(a) for a in arrays.values()) - len(arrays['mutations'])} dot "
            f"products",
            file=sys.stderr,
        )
    if options.folder:
        for number, instruction in enumerate(chosen):
            while len(list(options.folder.glob("*[0-9].npz"))) >= AHEAD:
                time.sleep(0.05)
            write(
                options.folder / f"{number:04}.npz",
                {str(instruction): full(instruction, options.cases)},
                compress=False,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
