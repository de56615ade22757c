"""Faults in the metadata of every `mma.sp` of an H100, run on one: what `tests/golden/faults_h100.npz` holds.

    python -m measurements.faults list                # the faults: build/faults/list.npz, .json
    python -m measurements.faults build               # kernels and their inputs; needs ptxas, no GPU
    python -m measurements.faults run --output DIR    # needs the GPU and cupy, not tcsim; seconds
    python -m measurements.faults compare --output DIR  # against the simulator
    python -m measurements.faults golden --output DIR   # tests/golden/faults_h100.npz, .json
    python -m measurements.faults again --output DIR    # against the golden files; `build --recorded` takes the
    faults from there

From the root of the repository. Every fault of one form and selector is one warp of one launch. The operands of case 0
and 1 are those that `simulator.faults.targets.mma.MmaTarget` draws; `CASES` says what the others are. Besides the
listed faults, of which all results are kept, every single flipped bit of the metadata register and each of the 16 codes
in every chunk run, of which digests are kept. Selectors that are out of range but that ptxas lets through run in a
process each, for they stop the kernel.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from isa.forms.mma import MmaForm
    from isa.types import Bits, ElementType
    from tests.golden.compare_faults import Recording

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden" / "faults_h100"
SEED = 20261121

CASES = (
    "normal numbers; integers: any",
    "normal numbers; integers: any",
    (
        "one of eight elements of B special (zero, infinity, NaN, subnormal, largest); integers: smallest and "
        "largest, C at the upper limit"
    ),
    "B subnormal, A large, C small; integers: smallest and largest, C at the lower limit",
    "any finite bits; integers: any, C too",
    "special elements in A, B and C; integers: half of B zero",
)

# -------------------------------------------------------------------------------------------------------------------
# list


def operands(form: MmaForm, selector: int) -> dict[str, Bits]:
    """Registers uint32 [case, word, lane] of `CASES`; A, B and C depend on shape and types alone, the codes on the
    spelling too."""
    from simulator.faults.targets.mma import MmaTarget
    from simulator.layout import Choice
    from tests.golden.compare_faults import OPERANDS, TARGET, operand_key

    drawn = MmaTarget(form.opcode, TARGET, Choice(selector), len(CASES), SEED, others="random").golden
    registers = {name: drawn[name].copy() for name in OPERANDS}
    rng = np.random.default_rng([SEED, zlib.crc32(operand_key(form).encode())])
    patterns = special_floats if form.a_type.is_float else special_integers
    for case in range(2, len(CASES)):
        for name, array in patterns(rng, form, case).items():
            registers[name][case] = getattr(form, name).scatter(array)
        codes = rng.integers(0, 1 << 16, form.metadata.shape)
        legal = np.array(form.metadata.codes, np.uint32)
        registers["e"][case, 0] = form.metadata.scatter(
            legal[codes % len(legal)], selector, rng.integers(0, 1 << 32, 32, dtype=np.uint32)
        )
    return registers


def special_integers(rng: np.random.Generator, form: MmaForm, case: int) -> dict[str, Bits]:
    shapes = {"a": (form.m, form.k_stored), "b": (form.k, form.n), "c": (form.m, form.n)}
    found = {
        name: rng.integers(0, 1 << getattr(form, f"{name}_type").bits, shape, dtype=np.uint64).astype(np.uint32)
        for name, shape in shapes.items()
    }
    if case in (2, 3):
        for name in "ab":
            element = getattr(form, f"{name}_type")
            low = 1 << (element.bits - 1) if element.kind.value.startswith("signed") else 0
            found[name] = np.where(found[name] & 1, np.uint32(low), np.uint32(low ^ element.mask))
        found["c"] = (np.uint32(0x7FFFFFFF if case == 2 else 0x80000000) ^ (found["c"] & np.uint32(0xFFF))).astype(
            np.uint32
        )
    if case == 5:
        found["b"] = np.where(rng.integers(0, 2, found["b"].shape) == 1, found["b"], np.uint32(0))
    return found


def special_floats(rng: np.random.Generator, form: MmaForm, case: int) -> dict[str, Bits]:
    from simulator.arithmetic.random_operands import draw

    shapes = {"a": (form.m, form.k_stored), "b": (form.k, form.n), "c": (form.m, form.n)}
    types = {name: getattr(form, f"{name}_type") for name in "abc"}
    found = {name: draw(rng, shapes[name], types[name], "normal", 1.0) for name in "abc"}
    if case == 2:
        found["b"] = sprinkled(rng, found["b"], types["b"], 8)
    elif case == 3:
        top = (1 << types["a"].exponent) - 1
        found["a"] = floats(rng, shapes["a"], types["a"], top // 2, top - 1)
        found["b"] = floats(rng, shapes["b"], types["b"], 0, 0)
        found["c"] = floats(rng, shapes["c"], types["c"], 0, 2)
    elif case == 4:
        found = {name: floats(rng, shapes[name], types[name], 0, (1 << types[name].exponent) - 2) for name in "abc"}
    else:
        found = {
            name: sprinkled(rng, found[name], types[name], how_many)
            for name, how_many in (("a", 16), ("b", 8), ("c", 16))
        }
    for name in "ab":
        found[name] |= rng.integers(
            0, 1 << types[name].padding, shapes[name], dtype=np.uint32
        )  # bits that the chip drops
    return found


def floats(rng: np.random.Generator, shape: tuple[int, ...], element: ElementType, lowest: int, highest: int) -> Bits:
    """Any sign and fraction, exponent fields of a range."""
    exponent = rng.integers(lowest, highest + 1, shape, dtype=np.uint32)
    fraction = rng.integers(0, 1 << element.fraction, shape, dtype=np.uint32)
    sign = rng.integers(0, 2, shape, dtype=np.uint32)
    joined: Bits = (
        ((sign << np.uint32(element.exponent) | exponent) << np.uint32(element.fraction)) | fraction
    ) << np.uint32(element.padding)
    return joined


def sprinkled(rng: np.random.Generator, patterns: Bits, element: ElementType, one_of: int) -> Bits:
    """One of so many elements replaced: zero, infinity (or the largest number), NaN, the extreme subnormal ones, the
    largest number."""
    infinity = ((1 << element.exponent) - 1) << element.fraction
    nan = infinity | (1 << element.fraction) - 1
    largest = nan - 1 if element.finite_top else infinity - 1
    magnitudes = [
        0,
        infinity if element.infinity else largest,
        nan,
        nan if element.finite_top else infinity + 1,
        1,
        (1 << element.fraction) - 1,
        largest,
    ]
    choices = np.array(
        [m | sign << element.exponent + element.fraction for m in magnitudes for sign in (0, 1)], np.uint32
    )
    chosen = choices[rng.integers(0, len(choices), patterns.shape)] << np.uint32(element.padding)
    found: Bits = np.where(rng.integers(0, one_of, patterns.shape) == 0, chosen, patterns).astype(np.uint32)
    return found


def groups() -> list[tuple[Any, int]]:
    """Groups of faults, and how many of each are drawn for a form and selector; of codes and selectors: for each
    value."""
    from simulator.faults.group import Group

    return [
        (Group("bit", "e", "flip"), 14),
        (Group("dead bit", "e", "flip", where="dead"), 6),
        (Group("two neighbours", "e", "flips", bits=2, adjacent=True), 6),
        (Group("two bits", "e", "flips", bits=2), 6),
        (Group("three bits", "e", "flips", bits=3), 5),
        (Group("four neighbours", "e", "flips", bits=4, adjacent=True), 5),
        (Group("byte", "e", "byte"), 8),
        (Group("dead byte", "e", "byte", where="dead"), 2),
        (Group("nibble", "e", "nibble"), 8),
        (Group("undefined code", "e", "code", codes="undefined"), 2),
        (Group("descending code", "e", "code", codes="descending"), 2),
        (Group("lane", "e", "lane"), 10),
        (Group("dead lane", "e", "lane", where="dead"), 2),
        (Group("swap", "e", "swap"), 10),
        (Group("stuck at 0", "e", "stuck0"), 6),
        (Group("stuck at 1", "e", "stuck1"), 6),
        (Group("word", "e", "word", count=64), 12),
        (Group("dead word", "e", "word", where="dead", count=64), 2),
        (Group("selector", "selector", "selector"), 3),
    ]


def draw_faults(form: MmaForm, selector: int, first: int) -> Any:
    """The faults of one form and selector; ids from `first` on."""
    from simulator.faults.kinds import code_values
    from simulator.faults.population import drawn
    from simulator.faults.population import population as population_of
    from simulator.faults.targets.mma import MmaTarget
    from simulator.layout import Choice
    from tests.golden.compare_faults import TARGET

    subject = MmaTarget(form.opcode, TARGET, Choice(selector), len(CASES), SEED, others="random")
    rng = np.random.default_rng([SEED, zlib.crc32(form.opcode.encode()), selector])
    parts = []
    for number, (group, count) in enumerate(groups()):
        if group.where == "dead" and form.metadata.selectors == 1:
            continue  # every bit is read
        population = population_of(group, subject.sites[group.site], subject.layout, len(CASES))
        if group.kind == "code":
            values = len(code_values(group, subject.layout))
            places = population.size // len(CASES) // values
            index = np.concatenate(
                [rng.choice(places, count, replace=False) * values + value for value in range(values)]
            )
            index = index * len(CASES) + rng.integers(0, len(CASES), len(index))
        elif group.kind == "selector":
            values = population.size // len(CASES)
            index = np.concatenate(
                [rng.choice(len(CASES), count, replace=False) + value * len(CASES) for value in range(values)]
            )
        else:
            index = rng.choice(population.size, min(count, population.size), replace=False)
        rows = population.make(np.sort(index))
        rows["group"] = number
        parts.append(rows[rows["value"] < form.metadata.selectors] if group.kind == "selector" else rows)
    faults = np.concatenate(parts)
    faults["id"] = first + np.arange(len(faults))
    return drawn(faults, SEED)


def make_list(folder: Path) -> None:
    from tests.golden import compare_faults as golden

    folder.mkdir(parents=True, exist_ok=True)
    recordings: list[Recording] = []
    first = 0
    for form in golden.sparse_forms():
        for selector in range(form.metadata.selectors):
            faults = draw_faults(form, selector, first)
            first += len(faults)
            recordings.append(golden.Recording(form.opcode, selector, operands(form, selector), faults))
    facts = golden.about(recordings, CASES, [group.name for group, _ in groups()], SEED)
    golden.save(folder / "list", golden.packed(recordings), facts)
    print(
        first,
        "faults of",
        len(recordings),
        "forms and selectors;",
        sum(int(r.undefined().sum()) for r in recordings),
        "leave undefined codes",
    )


# ------------------------------------------------------------------------------------------------------------------
# build

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def kernel(name: str, form: MmaForm, selector: int) -> str:
    """(uint32 *operands [case, word, lane], uint32 *metadata [fault, lane], uint32 *cases, uint32 *outputs [fault,
    word, lane], uint32 faults)."""
    words = {letter: getattr(form, letter).registers for letter in "abcd"}
    kinds = {letter: ".f32" if getattr(form, f"{letter}_type").name == "f32" else ".b32" for letter in "abcd"}
    vectors = {letter: "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}" for letter, count in words.items()}
    size = 128 * (words["a"] + words["b"] + words["c"])
    lines = [
        (
            f".visible .entry {name}(.param .u64 operands, .param .u64 metadata, .param .u64 cases, .param .u64 "
            f"outputs, .param .u32 faults)"
        ),
        "{",
    ]
    lines += [
        ".reg .b64 %in, %out, %meta, %which, %wide;",
        ".reg .b32 %lane, %fault, %count, %t, %e;",
        ".reg .pred %beyond;",
    ]
    lines += [f".reg {kinds[letter]} %{letter}<{count}>;" for letter, count in words.items()]
    pointers = (("in", "operands"), ("meta", "metadata"), ("which", "cases"), ("out", "outputs"))
    lines += [f"ld.param.u64 %{register}, [{parameter}];" for register, parameter in pointers]
    lines += [
        "ld.param.u32 %count, [faults];",
        "mov.u32 %fault, %ctaid.x;",
        "shl.b32 %fault, %fault, 2;",
        "mov.u32 %t, %tid.x;",
    ]
    lines += [
        "mov.u32 %lane, %laneid;",
        "shr.u32 %t, %t, 5;",
        "add.u32 %fault, %fault, %t;",
        "setp.ge.u32 %beyond, %fault, %count;",
        "@%beyond ret;",
    ]
    lines += ["mul.wide.u32 %wide, %fault, 4;", "add.u64 %which, %which, %wide;", "ld.global.b32 %t, [%which];"]
    lines += [f"mul.wide.u32 %wide, %t, {size};", "add.u64 %in, %in, %wide;"]
    lines += ["mul.wide.u32 %wide, %fault, 128;", "add.u64 %meta, %meta, %wide;"]
    lines += [
        f"mul.wide.u32 %wide, %fault, {128 * words['d']};",
        "add.u64 %out, %out, %wide;",
        "mul.wide.u32 %wide, %lane, 4;",
    ]
    lines += [f"add.u64 %{register}, %{register}, %wide;" for register in ("in", "meta", "out")]
    place = 0
    for letter in "abc":
        for i in range(words[letter]):
            lines.append(f"ld.global.b32 %{letter}{i}, [%in+{place}];")
            place += 128
    lines += ["ld.global.b32 %e, [%meta];", "bar.warp.sync 0xffffffff;"]
    lines.append(f"{form.opcode} {', '.join(vectors[letter] for letter in 'dabc')}, %e, {selector};")
    lines += [f"st.global.b32 [%out+{128 * i}], %d{i};" for i in range(words["d"])]
    return "\n".join([*lines, "ret;", "}", ""])


def assemble(path: Path, kernels: list[str], ptxas: str) -> None:
    path.with_suffix(".ptx").write_text(HEADER + "\n".join(kernels))
    command = [ptxas, "-arch=sm_90a", "-o", str(path.with_suffix(".cubin")), str(path.with_suffix(".ptx"))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def build(folder: Path, ptxas: str, recorded: bool) -> None:
    """kernels.cubin, stop_N.cubin, inputs.npz and inputs.json: all that `run` needs."""
    from tests.golden import compare_faults as golden

    folder.mkdir(parents=True, exist_ok=True)
    recordings, _ = golden.load() if recorded else golden.load(folder / "list")
    number = {(r.opcode, r.selector): i for i, r in enumerate(recordings)}
    assemble(folder / "kernels", [kernel(f"form_{i}", r.form, r.selector) for i, r in enumerate(recordings)], ptxas)
    stops = [
        (f, s)
        for f in golden.sparse_forms()
        for s in range(f.metadata.selectors, f.metadata.selectors + f.lax_selectors)
    ]
    for i, (form, selector) in enumerate(stops):
        assemble(folder / f"stop_{i}", [kernel("stop", form, selector)], ptxas)
    arrays: dict[str, NDArray[Any]] = {}
    forms = []
    for i, r in enumerate(recordings):
        arrays[f"operands_{i}"] = np.concatenate([r.operands[name] for name in "abc"], axis=1)
        whole = [r.faults, *(golden.every(r.instruction, group) for group in golden.EVERY)]
        clean = len(r.operands["a"])
        faulty = [r.instruction.faulty(part)[0]["e"][:, 0] for part in whole]
        arrays[f"metadata_{i}"] = np.concatenate([r.operands["e"][:, 0], *faulty])
        arrays[f"cases_{i}"] = np.concatenate([np.arange(clean), *(part["case"] for part in whole)]).astype(np.uint32)
        used = np.concatenate(
            [np.full(clean, r.selector), r.selectors, *(np.full(len(part), r.selector) for part in whole[1:])]
        )
        arrays[f"kernels_{i}"] = np.array(
            [number[r.opcode, selector] for selector in range(r.form.metadata.selectors)], np.uint32
        )[used]
        forms.append(
            {
                "opcode": r.opcode,
                "selector": r.selector,
                "words": r.form.d.registers,
                "parts": [clean, *map(len, whole)],
            }
        )
    np.savez_compressed(folder / "inputs.npz", **arrays)  # type: ignore[arg-type]
    listed = [
        {
            "opcode": f.opcode,
            "selector": s,
            "operands": f.a.registers + f.b.registers + f.c.registers,
            "words": f.d.registers,
        }
        for f, s in stops
    ]
    version = (
        subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True)
        .stdout.split("V")[-1]
        .split()[0]
    )
    (folder / "inputs.json").write_text(json.dumps({"forms": forms, "stops": listed, "ptxas": version}) + "\n")
    print(
        len(forms),
        "kernels,",
        sum(len(arrays[f"cases_{i}"]) for i in range(len(forms))),
        "warps,",
        len(stops),
        "selectors out of range",
    )


# -------------------------------------------------------------------------------------------------------------- on the
# GPU


def launched(module: Any, name: str, arrays: list[NDArray[Any]], words: int) -> NDArray[np.uint32]:
    """D [fault, word, lane] of one kernel."""
    import cupy

    count = len(arrays[2])
    given = [cupy.asarray(np.ascontiguousarray(array, np.uint32)) for array in arrays]
    outputs = cupy.full((count, words, 32), 0xDEADBEEF, cupy.uint32)
    module.get_function(name)((-(-count // 4),), (128,), (*given, outputs, np.uint32(count)))
    found: NDArray[np.uint32] = cupy.asnumpy(outputs)
    return found


def run(folder: Path, output: Path, date: str) -> None:
    """outputs.npz (`clean_N`, `faults_N`) and device.json."""
    import cupy

    output.mkdir(parents=True, exist_ok=True)
    about = json.loads((folder / "inputs.json").read_text())
    module = cupy.RawModule(path=str(folder / "kernels.cubin"))
    found: dict[str, NDArray[Any]] = {}
    digests: dict[str, list[list[Any]]] = {}
    repeats = True
    with np.load(folder / "inputs.npz") as inputs:
        for i, form in enumerate(about["forms"]):
            given, metadata, cases, kernels = (
                inputs[f"{name}_{i}"] for name in ("operands", "metadata", "cases", "kernels")
            )
            d = np.zeros((len(cases), form["words"], 32), np.uint32)
            for number in np.unique(kernels):
                mine = np.flatnonzero(kernels == number)
                d[mine] = launched(module, f"form_{number}", [given, metadata[mine], cases[mine]], form["words"])
                repeats &= np.array_equal(
                    d[mine], launched(module, f"form_{number}", [given, metadata[mine], cases[mine]], form["words"])
                )
            clean, faults, *every = np.split(d, np.cumsum(form["parts"])[:-1])
            found[f"clean_{i}"], found[f"faults_{i}"] = clean, faults
            sums = [
                [len(part), hashlib.sha256(np.ascontiguousarray(part, "<u4").tobytes()).hexdigest()[:16]]
                for part in every
            ]
            digests[f"{form['opcode']}|{form['selector']}"] = sums
    np.savez_compressed(output / "outputs.npz", **found)  # type: ignore[arg-type]
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    facts = {"gpu": gpu, "driver": driver, "date": date, "ptxas": about["ptxas"], "repeats": bool(repeats)}
    stops = [
        {"opcode": stop["opcode"], "selector": stop["selector"], "error": stopped(folder, number)}
        for number, stop in enumerate(about["stops"])
    ]
    (output / "device.json").write_text(json.dumps(facts | {"out_of_range": stops, "digests": digests}) + "\n")
    print(facts, stops)


def stopped(folder: Path, number: int) -> str:
    """What a launch with a selector that is out of range ends with, in a process of its own."""
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        "stop",
        "--build",
        str(folder.resolve()),
        "--number",
        str(number),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or f"exit {done.returncode}: {done.stderr[-300:]}"


def stop(folder: Path, number: int) -> None:
    """Prints the name of the CUDA error, or "none"."""
    import cupy

    about = json.loads((folder / "inputs.json").read_text())["stops"][number]
    module = cupy.RawModule(path=str(folder / f"stop_{number}.cubin"))
    given = [np.zeros((1, about["operands"], 32)), np.full((1, 32), 0x44444444), np.zeros(1)]
    try:
        launched(module, "stop", given, about["words"])
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        print(str(error).split(":")[0], flush=True)
        os._exit(0)  # without freeing what the dead context held
    print("none")


# ------------------------------------------------------------------------------------------------------------ without
# it


def measured(folder: Path, output: Path, recorded: bool) -> tuple[list[Recording], dict[str, Any]]:
    """The recordings with what the GPU made of them, and what the JSON says."""
    from dataclasses import replace

    from tests.golden import compare_faults as golden

    recordings, facts = golden.load() if recorded else golden.load(folder / "list")
    device = json.loads((output / "device.json").read_text())
    with np.load(output / "outputs.npz") as data:
        recordings = [
            replace(r, clean=data[f"clean_{i}"], outputs=data[f"faults_{i}"]) for i, r in enumerate(recordings)
        ]
    return recordings, {**facts, **device}


def compare(folder: Path, output: Path) -> int:
    from tests.golden import compare_faults as golden

    recordings, facts = measured(folder, output, False)
    wrong = 0
    for row in golden.rows(recordings, facts, True):
        wrong += row.bits + row.every_wrong
        if row.bits or row.every_wrong:
            print(row)
    print(
        sum(len(r.faults) for r in recordings),
        "faults, differing bits or digests:",
        wrong,
        "repeats:",
        facts["repeats"],
    )
    return int(wrong > 0)


def again(folder: Path, output: Path) -> int:
    """Whether the GPU gave what is recorded, digests and errors too."""
    from tests.golden import compare_faults as golden

    fresh, found = measured(folder, output, True)
    recorded, facts = golden.load()
    pairs = [
        (new, old)
        for n, o in zip(fresh, recorded, strict=True)
        for new, old in ((n.clean, o.clean), (n.outputs, o.outputs))
    ]
    bits = sum(int(np.bitwise_count(new ^ old).sum()) for new, old in pairs if new is not None and old is not None)
    same = all(found[name] == facts[name] for name in ("digests", "out_of_range"))
    print(
        sum(len(r.faults) for r in fresh),
        "faults,",
        bits,
        "bits differ from those recorded, digests and errors",
        "the same" if same else "differ",
    )
    return int(bits > 0 or not same or not found["repeats"])


def write_golden(folder: Path, output: Path) -> None:
    from tests.golden import compare_faults as golden

    recordings, facts = measured(folder, output, False)
    golden.save(GOLDEN, golden.packed(recordings), facts)
    sizes = {suffix: GOLDEN.with_suffix(suffix).stat().st_size for suffix in (".npz", ".json")}
    print(sum(len(r.faults) for r in recordings), "faults,", sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("list", "build", "run", "stop", "compare", "golden", "again"))
    parser.add_argument("--build", type=Path, default=HERE / "build" / "faults")
    parser.add_argument("--output", type=Path, default=HERE / "build" / "faults" / "output")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument(
        "--recorded", action="store_true", help="build: the faults of the golden files in place of list.npz"
    )
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="run: written to the results")
    parser.add_argument("--number", type=int, default=0, help="stop: which")
    options = parser.parse_args()
    match options.step:
        case "list":
            make_list(options.build)
        case "build":
            build(options.build, options.ptxas, options.recorded)
        case "run":
            run(options.build, options.output, options.date)
        case "stop":
            stop(options.build, options.number)
        case "compare":
            return compare(options.build, options.output)
        case "again":
            return again(options.build, options.output)
        case _:
            write_golden(options.build, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
