"""Measures what the matrix instructions of an H100 compute: every form of `numerics_forms.py` on the contents of
`numerics_inputs.py`.

    python -m measurements.numerics build                 # kernels; needs ptxas, no GPU
    python -m measurements.numerics run --output DIR      # needs the GPU and cupy, not tcsim; a minute
    python -m measurements.numerics compare --output DIR  # against the simulator and the models of
    numerics_reference.py
    python -m measurements.numerics confirm --output DIR  # the same from digests of the results
    python -m measurements.numerics golden --output DIR   # tests/golden/h100_numerics.npz, results/numerics.csv

From the root of the repository. Results: README.md beside this file.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measurements.numerics_forms import BLOCKS, FORMS, Form, in_blocks, module
from measurements.numerics_inputs import KINDS, probes, random_cases

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden"
PARTS = {"mma": [f for f in FORMS.values() if not f.wgmma], "wgmma": [f for f in FORMS.values() if f.wgmma]}
CASES = 24 * len(KINDS)
BLOCK_CASES = 3 * len(KINDS)
FILE_BYTES = 14 << 20

Registers = NDArray[np.uint32]


def contents(form: Form, seed: int, cases: int = CASES) -> dict[str, Registers]:
    """What the form is run on: "random" and, for floats, "probes"."""
    found = {"random": random_cases(form, cases, seed)}
    if named := probes(form):
        found["probes"] = np.stack([case for _, case in named])
    return found


def digest(array: Registers) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def build(folder: Path, ptxas: str, version: str) -> None:
    """A cubin for each part; rejected.json lists forms that this assembler does not take."""
    folder.mkdir(parents=True, exist_ok=True)
    rejected = []
    for name, part in PARTS.items():
        forms = dict(enumerate(part))
        if assemble(folder / name, forms, ptxas, version):
            bad = [number for number, form in forms.items() if assemble(folder / "one", {number: form}, ptxas, version)]
            rejected += [forms.pop(number).opcode for number in bad]
            if error := assemble(folder / name, forms, ptxas, version):
                raise RuntimeError(error)
    (folder / "rejected.json").write_text(json.dumps(rejected, indent=1) + "\n")
    print(sum(map(len, PARTS.values())) - len(rejected), "kernels,", len(rejected), "forms rejected")


def assemble(path: Path, forms: dict[int, Form], ptxas: str, version: str) -> str:
    """What ptxas complains of; empty if it does not."""
    source = path.with_suffix(".ptx")
    source.write_text(module(forms, version))
    command = [ptxas, "-arch=sm_90a", "-o", str(path.with_suffix(".cubin")), str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


# -------------------------------------------------------------------------------------------------------------- on the
# GPU


def run(folder: Path, output: Path, seed: int) -> None:
    """Every form, each part in a process of its own; numerics_*.npz and numerics_device.json."""
    output.mkdir(parents=True, exist_ok=True)
    failed = {}
    for part in PARTS:
        folders = ["--build", str(folder.resolve()), "--output", str(output.resolve())]
        command = [
            sys.executable,
            "-m",
            "measurements.numerics",
            "worker",
            *folders,
            "--part",
            part,
            "--seed",
            str(seed),
        ]
        done = subprocess.run(command, check=False, cwd=HERE.parent)
        if done.returncode:
            failed[part] = done.returncode
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    facts: dict[str, Any] = {"gpu": gpu, "driver": driver, "seed": seed, "failed": failed, "repeats": True}
    facts |= {"digests": {}, "results": {}, "blocks": {}}
    for path in sorted(output.glob("numerics_*_facts.json")):
        part_facts = json.loads(path.read_text())
        for table in ("digests", "results", "blocks"):
            facts[table] |= part_facts[table]
        facts["repeats"] &= part_facts["repeats"]
        path.unlink()
    (output / "numerics_device.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(
        gpu,
        driver,
        "failed:",
        failed,
        "blocks that change results:",
        sorted({b for row in facts["blocks"].values() for b in row}),
    )
    if failed:
        raise RuntimeError(f"{failed} failed")


def worker(folder: Path, output: Path, part: str, seed: int) -> None:
    import cupy

    rejected = json.loads((folder / "rejected.json").read_text())
    kernels = cupy.RawModule(path=str(folder / f"{part}.cubin"))
    facts: dict[str, Any] = {"digests": {}, "results": {}, "blocks": {}, "repeats": True}
    arrays: dict[str, Registers] = {}
    size = count = 0

    def launch(number: int, form: Form, given: Registers, block: tuple[int, int, int]) -> Registers:
        inputs, outputs = cupy.asarray(given), cupy.full((len(given), form.words[3], 32), 0xDEADBEEF, cupy.uint32)
        warps = block[0] * block[1] * block[2] // 32
        kernels.get_function(f"form_{number}")(
            (-(-len(given) // warps),), block, (inputs, outputs, np.uint32(len(given)))
        )
        result: Registers = cupy.asnumpy(outputs)
        return result

    for number, form in enumerate(PARTS[part]):
        if form.opcode in rejected:
            continue
        for name, given in contents(form, seed).items():
            key = f"{form.opcode}|{name}"
            facts["digests"][key] = digest(given)
            arrays[key] = launch(number, form, given, (128, 1, 1))
            facts["repeats"] &= bool(np.array_equal(arrays[key], launch(number, form, given, (128, 1, 1))))
            facts["results"][key] = digest(arrays[key])
            size += arrays[key].nbytes
        if in_blocks(form):
            given, usual = random_cases(form, BLOCK_CASES, seed), arrays[f"{form.opcode}|random"][:BLOCK_CASES]
            for block in BLOCKS:
                found = launch(number, form, given, block)
                if not np.array_equal(found, usual):
                    name = "x".join(map(str, block))
                    facts["blocks"].setdefault(form.opcode, {})[name] = int((found != usual).any(axis=(1, 2)).sum())
                    arrays[f"{form.opcode}|{name}"] = found
                    facts["results"][f"{form.opcode}|{name}"] = digest(found)
                    size += found.nbytes
        if size > FILE_BYTES:
            np.savez_compressed(output / f"numerics_{part}_{count}.npz", **arrays)  # type: ignore[arg-type]
            arrays, size, count = {}, 0, count + 1
    np.savez_compressed(output / f"numerics_{part}_{count}.npz", **arrays)  # type: ignore[arg-type]
    (output / f"numerics_{part}_facts.json").write_text(json.dumps(facts))
    print(
        part,
        len(facts["digests"]),
        "arrays; different in other blocks:",
        {k.split("aligned.")[1]: v for k, v in facts["blocks"].items()},
    )


# ------------------------------------------------------------------------------------------------------------- without
# it


def recorded(output: Path) -> Iterator[tuple[Form, str, Registers, Registers]]:
    """Form, what it ran on ("random", "probes" or a block), inputs, outputs."""
    facts = json.loads((output / "numerics_device.json").read_text())
    for path in sorted(output.glob("numerics_*.npz")):
        with np.load(path) as data:
            made: dict[str, dict[str, Registers]] = {}
            for key in data.files:
                opcode, name = key.split("|")
                form = FORMS[opcode]
                if opcode not in made:
                    made[opcode] = contents(form, facts["seed"])
                    for what, array in made[opcode].items():
                        if digest(array) != facts["digests"][f"{opcode}|{what}"]:
                            raise RuntimeError(f"{opcode}: {what} contents differ from those that were run")
                given = made[opcode].get(name, made[opcode]["random"][:BLOCK_CASES])
                yield form, name, given, data[key]


def compare(output: Path, pattern: str) -> int:
    from measurements import numerics_reference as reference

    wrong = total = 0
    for form, name, given, found in recorded(output):
        if pattern not in f"{form.opcode}|{name}":
            continue
        for label, expected in reference.predictions(form, given, name):
            different = (expected != found).any(axis=(1, 2)) if found.size else np.zeros(0, bool)
            words = int((expected != found).sum())
            wrong += words
            total += found.size
            cases = np.flatnonzero(different)
            which = (
                [probes(form)[i][0] for i in cases[:12]]
                if name == "probes"
                else sorted({KINDS[(i // 4 if form.wgmma else i) % len(KINDS)] for i in cases})
            )
            print(
                f"{form.opcode}|{name}: {label}: {words} of {found.size} words differ",
                which if words else "",
                flush=True,
            )
    print(f"{wrong} of {total} words differ")
    return int(wrong > 0)


def confirm(facts_file: Path) -> int:
    """The same from digests alone, as numerics_device.json has them: of other seeds, or of code from another
    assembler."""
    from measurements import numerics_reference as reference

    facts = json.loads(facts_file.read_text())
    made: dict[str, dict[str, Registers]] = {}
    wrong = []
    for key, found in facts["results"].items():
        opcode, name = key.split("|")
        made.setdefault(opcode, contents(FORMS[opcode], facts["seed"]))
        given = made[opcode].get(name, made[opcode]["random"][:BLOCK_CASES])
        wrong += [
            f"{key}: {who}"
            for who, expected in reference.predictions(FORMS[opcode], given, name)
            if digest(expected) != found
        ]
    print(facts["gpu"], "seed", facts["seed"], len(facts["results"]), "arrays, different:", wrong)
    return int(bool(wrong))


KEPT = {
    "dense": 11,
    "fp8": 6,
    "sparse_fp8": 7,
    "f64": 4,
    "m8n8k4": 6,
    "int4": 4,
    "int8": 3,
    "b1": 3,
    "plain_sp": 3,
    "wgmma": 5,
}
"""Random cases of each form of a group that tests/golden/h100_numerics.npz has, first those of the first of
`PREFERRED`."""

PREFERRED = ("near", "special", "subnormal", "halfway", "huge", "wide", "late", "minus", "cancel", "zeros", "bits")
BLOCKS_KEPT = 3


def kept_cases(form: Form, name: str) -> list[int]:
    """Which cases of "random", "probes" or a block the golden file has, in order; of a `wgmma` only first warps."""
    stride = 4 if form.wgmma else 1
    if name == "probes":
        return list(range(0, len(probes(form)), stride))
    order = [KINDS.index(kind) * stride for kind in PREFERRED]
    return order[: KEPT[form.group] if name == "random" else BLOCKS_KEPT]


def golden(output: Path) -> None:
    """Keys `opcode|random|in`, `|random|out`, `|probes|in`, `|probes|out`; `|BLOCK|out` for the first of `random` in
    blocks of that shape."""
    arrays: dict[str, Registers] = {}
    for form, name, given, found in recorded(output):
        cases = kept_cases(form, name)
        if name in ("random", "probes"):
            arrays[f"{form.opcode}|{name}|in"] = given[cases]
        arrays[f"{form.opcode}|{name}|out"] = found[cases]
    summarise(json.loads((output / "numerics_device.json").read_text()))
    path = GOLDEN / "h100_numerics.npz"
    temporary = path.with_suffix(".part.npz")
    np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]
    temporary.replace(path)
    print(path, len(arrays), "arrays,", path.stat().st_size, "bytes")


def summarise(facts: dict[str, Any]) -> None:
    """results/numerics.csv: what ran, digests of all results, blocks that change them."""
    columns = (
        "opcode",
        "cases",
        "digest",
        "probes",
        "probes_digest",
        "blocks_tried",
        "blocks_that_differ",
        "gpu",
        "driver",
    )
    with (HERE / "results" / "numerics.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for form in FORMS.values():
            named, results = probes(form), facts["results"]
            blocks = " ".join(facts["blocks"].get(form.opcode, {}))
            row = [
                form.opcode,
                CASES,
                results[f"{form.opcode}|random"],
                len(named),
                results.get(f"{form.opcode}|probes", ""),
            ]
            writer.writerow([*row, len(BLOCKS) if in_blocks(form) else 0, blocks, facts["gpu"], facts["driver"]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run", "worker", "compare", "confirm", "golden"))
    parser.add_argument("--build", type=Path, default=HERE / "build" / "numerics")
    parser.add_argument("--output", type=Path, default=HERE / "build" / "numerics" / "output")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--version", default="9.0", help="build: PTX version, lower for older assemblers")
    parser.add_argument("--part", default="mma")
    parser.add_argument(
        "--seed", type=int, default=1, help="run: of the random contents; the golden file has those of 1"
    )
    parser.add_argument("--only", default="", help="compare: keys that contain this")
    options = parser.parse_args()
    match options.step:
        case "build":
            build(options.build, options.ptxas, options.version)
        case "run":
            run(options.build, options.output, options.seed)
        case "worker":
            worker(options.build, options.output, options.part, options.seed)
        case "compare":
            return compare(options.output, options.only)
        case "confirm":
            return confirm(options.output / "numerics_device.json")
        case _:
            golden(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
