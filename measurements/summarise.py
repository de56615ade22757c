"""Prints the constants that the measurements give, with the residual of each rule over all measured points.

    python summarise.py [--results DIR]

Rules: warp-level mma, arithmetic: cycles of a round = max(latency, ceil(warps / 4) * chains * interval). Shared memory:
    latency = first + 2 for
every further wavefront, an SM serves one wavefront a cycle. bar.sync: 12 + 2 * warps. Loop of independent mma: (k - 1)
* interval + latency.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

Row = dict[str, str]


def read(results: Path, group: str) -> list[Row]:
    with (results / f"{group}.csv").open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[k] for k in keys)].append(row)
    return found


def cost(row: Row) -> float:
    return float(row["cycles_per_instruction"])


def iteration(row: Row) -> float:
    return float(row["cycles_per_iteration"])


def on_sub_core(row: Row) -> int:
    """Warps of the CTA on the fullest sub-core."""
    return math.ceil(int(row["warps"]) / 4)


def residual(rows: Iterable[Row], rule: Callable[[Row], float], measured: Callable[[Row], float] = cost) -> str:
    """Mean and largest |measured - rule| / rule in percent, and where the largest is."""
    errors = [(abs(measured(r) / rule(r) - 1) * 100, r) for r in rows]
    worst = max(errors, key=lambda e: e[0])
    place = f"{worst[1]['program']} at {worst[1]['warps']} warps"
    return f"{sum(e for e, _ in errors) / len(errors):5.1f} %  max {worst[0]:5.1f} % ({place})"


def at(rows: Iterable[Row], **wanted: int | str) -> Row:
    return next(r for r in rows if all(r[k] == str(v) for k, v in wanted.items()))


def pipe(rows: list[Row], emulated: bool) -> tuple[float, float, str]:
    """Latency (one warp, one chain), interval (most warps and chains) and the residual of the rule."""
    latency = cost(at(rows, chains=1, warps=1)) if not emulated else min(cost(r) for r in rows if r["warps"] == "1")
    most = max(int(r["chains"]) for r in rows)
    full = max((r for r in rows if int(r["chains"]) == most), key=lambda r: int(r["warps"]))
    interval = cost(full) / on_sub_core(full)
    if not emulated:
        latency, interval = round(latency), round(interval)

    def rule(r: Row) -> float:
        chains = 1 if emulated else int(r["chains"])
        return max(latency, on_sub_core(r) * chains * interval) / chains

    return latency, interval, residual(rows, rule)


def mma(results: Path) -> None:
    print("\n== mma and mma.sp: latency and issue interval on one sub-core, cycles ==")
    print(
        "   native: one chain / many chains. emulated: best time of one warp alone / time each at full load (its "
        "chain is not what limits)"
    )
    rows = read(results, "mma")
    for (instruction, fresh, emulated), some in grouped(rows, "instruction", "fresh", "emulated").items():
        if emulated == "0" and fresh == "all":
            continue
        latency, interval, rest = pipe(some, emulated == "1")
        adds = f", with {some[0]['adds_per_instruction']} adds" if some[0]["adds_per_instruction"] != "0" else ""
        kind = {"none": "", "b": " B changes", "all": " A, B, e change"}[fresh] + adds
        print(
            f"{instruction.replace('.sync.aligned', '').replace('.row.col', ''):58s}{latency:7.1f}{interval:7.1f} "
            f" {rest}{kind}"
        )
    plain, added = (at(rows, program=f"mma_spo_m16n8k32_f32_f16_f16_c4_{kind}", warps=32) for kind in ("none", "all"))
    each = (cost(added) - cost(plain)) / on_sub_core(added) / int(added["adds_per_instruction"])
    print(f"an add beside a native mma, at full load: {each:.2f} cycles of a sub-core")


def operands(results: Path) -> None:
    print("\n== chains through other operands, cycles per link, one warp ==")
    for row in read(results, "operand"):
        if row["warps"] == "1":
            name = row["instruction"].replace(".sync.aligned", "").replace(".row.col", "")
            print(f"{name[:52]:54s}{row['chain']:50s}{cost(row):8.2f}")


def alu(results: Path) -> None:
    print("\n== arithmetic: latency and interval on one sub-core ==")
    for (instruction,), rows in grouped(read(results, "alu"), "instruction").items():
        if "mov" in instruction:
            full = at(rows, warps=16, chains=16)
            print(f"{instruction:40s}      -{cost(full) / 4:7.2f}  (rotation of 16 registers)")
        elif "setp" in instruction:
            latency, interval, rest = pipe(rows, False)
            print(f"{instruction:40s}{latency:7.1f}{interval:7.1f}  {rest} (the pair)")
        else:
            latency, interval, rest = pipe(rows, False)
            print(f"{instruction:40s}{latency:7.1f}{interval:7.1f}  {rest}")


def wavefronts(row: Row) -> int:
    """Cycles of shared-memory bandwidth that one access of a warp needs: 128 bytes each without conflicts, more with
    them."""
    instruction, pitch = row["instruction"], int(row["pitch_bytes"])
    if instruction.startswith("ldmatrix"):
        matrices = int(instruction.split(".x")[1][0])
        lines = [{(8 * m + r) * pitch + b for r in range(8) for b in range(0, 16, 4)} for m in range(matrices)]
    else:
        width = 4 if ".v4" in instruction else 2 if ".v2" in instruction else 1
        per_group = 32 // width  # a v2 access is served in two halves of the warp, a v4 access in four quarters
        lines = [
            {lane * pitch + 4 * w for lane in range(g, g + per_group) for w in range(width)}
            for g in range(0, 32, per_group)
        ]
    total = 0
    for words in lines:
        banks: dict[int, int] = defaultdict(int)
        for address in words:
            banks[address // 4 % 32] += 1
        total += max(banks.values())
    return total


def shared(results: Path) -> None:
    rows = read(results, "shared")
    print("\n== shared memory: pointer chase, cycles a load, one warp; wavefronts from the addresses ==")
    for (instruction, pitch), some in grouped(
        (r for r in rows if r["kind"] == "chase"), "instruction", "pitch_bytes"
    ).items():
        one = at(some, warps=1)
        print(
            f"{instruction.replace('.sync.aligned.m8n8', ''):34s} pitch {pitch:>4s}  wavefronts "
            f"{wavefronts(one):3d}  latency {cost(one):6.1f}"
        )
    narrow = [r for r in rows if r["kind"] == "chase" and ".v" not in r["instruction"] and r["warps"] == "1"]
    print(
        "latency = 23 + 2 * (wavefronts - 1), all but ld.shared.v2 / .v4:",
        residual(narrow, lambda r: 23 + 2 * (wavefronts(r) - 1)),
    )
    chase = [r for r in rows if r["kind"] == "chase"]
    base = {r["program"]: cost(r) for r in chase if r["warps"] == "1"}
    several = residual(chase, lambda r: max(base[r["program"]], int(r["warps"]) * wavefronts(r)))
    print("chase of several warps = max(latency, warps * wavefronts):", several)

    print("\n== shared memory: independent accesses ==")
    full = [r for r in rows if r["kind"] in ("independent", "store") and int(r["warps"]) in (8, 16, 32)]
    print(
        "8 warps or more: cycles per access of each warp = warps * wavefronts:",
        residual(full, lambda r: int(r["warps"]) * wavefronts(r)),
    )
    for instruction in sorted({r["instruction"] for r in rows if r["kind"] == "independent"}):
        few = [r for r in rows if r["kind"] == "independent" and r["instruction"] == instruction and r["warps"] == "1"]
        size = (
            16 if "ldmatrix" in instruction else min(int(r["pitch_bytes"]) for r in few if int(r["pitch_bytes"]))
        )  # no conflicts
        counts = {
            int(r["per_iteration"]): float(r["cycles_per_iteration"]) for r in few if int(r["pitch_bytes"]) == size
        }
        slope = (counts[16] - counts[8]) / 8
        print(
            f"{instruction.replace('.sync.aligned.m8n8', ''):34s} one warp: {slope:5.2f} cycles each (8 to 16 "
            f"loads in a loop body)"
        )
    for row in rows:
        if row["warps"] == "1" and row["kind"] not in ("chase", "independent"):
            print(
                f"{row['instruction']:34s} {row['kind']:16s} pitch {row['pitch_bytes']:>4s}  one warp: {cost(row):6.2f}"
            )


def barrier(results: Path) -> None:
    rows = read(results, "barrier")
    print("\n== bar.sync ==")
    by = {(r["program"], int(r["warps"])): float(r["cycles_per_iteration"]) for r in rows}
    for warps in sorted({w for n, w in by if n == "barrier_n8"}):
        each = (by["barrier_n8", warps] - by["barrier_n2", warps]) / 6
        print(f"{warps:3d} warps: {each:6.2f} cycles a barrier, rule 12 + 2 * warps = {12 + 2 * warps}")
    print("relay (one warp late, then all others late): cycles a turn beyond the work of both sides, two hand-overs")
    for warps in (2, 4, 5, 8, 16):
        turn = (by["barrier_relay_n4_t4", warps] - by["barrier_relay_n4_t2", warps]) / 2 - 2 * 4 * max(23, warps - 1)
        print(f"{warps:3d} warps: {turn:6.2f}, rule 28 + 2 * warps = {28 + 2 * warps}")
    for warps in (1, 8, 32):
        chain, none, late = (by[f"barrier_{kind}_n48", warps] for kind in ("chain", "none", "late"))
        print(
            f"{warps:3d} warps: 48 IMAD and a barrier {chain:.1f}, without the barrier {none:.1f}, IMAD by warp 0 "
            f"alone {late:.1f}"
        )


def loop(results: Path) -> None:
    rows = [r for r in read(results, "loop") if r["counter"] == "vector"]
    print(
        "\n== loop end (VIADD, ISETP, BRA): cycles an iteration beyond the unrolled cost, at 1, 4, 8, 12, 16 warps =="
    )
    for form, latency, interval in (("m16n8k32", 24, 8), ("m16n8k16", 17, 6)):
        some = [r for r in rows if form in r["instruction"]]

        def unrolled(r: Row, latency: int = latency, interval: int = interval) -> float:
            chains = int(r["chains"])
            return max(latency, on_sub_core(r) * chains * interval) / chains * int(r["instructions"])

        def drained(r: Row, latency: int = latency, interval: int = interval) -> float:
            return max(28, (int(r["instructions"]) - 1) * interval + latency)

        for (k, chains), line in grouped(some, "mma_per_iteration", "chains").items():
            extra = " ".join(f"{iteration(r) - unrolled(r):7.1f}" for r in line if r["warps"] != "2")
            print(f"   mma.sp {form}, {k:>2s} in the body, {chains:>2s} chains: {extra}")
        alone = [r for r in some if r["chains"] == r["mma_per_iteration"] and int(r["warps"]) <= 4]
        print(
            f"   one warp on a sub-core, independent: max(28, (k - 1) * {interval} + {latency}):",
            residual(alone, drained, iteration),
        )
    for row in rows:
        if row["instruction"] == "lop3.b32" and row["warps"] == "1":
            print(
                f"   {row['mma_per_iteration']:>2s} independent LOP3 in the body, one warp: "
                f"{row['cycles_per_iteration']} cycles an iteration"
            )


def gemm(results: Path) -> None:
    print("\n== GEMM-like steps, cycles an iteration ==")
    for (program,), rows in grouped(read(results, "gemm"), "program").items():
        cells = "  ".join(f"{r['warps']}: {iteration(r):.1f}" for r in rows)
        print(f"{program:22s} {rows[0]['instructions']:>3s} mma  {cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).resolve().parent / "results")
    results = parser.parse_args().results
    print((results / "mma.csv").open().readline().strip("# \n"))
    for section in (mma, operands, alu, shared, barrier, loop, gemm):
        section(results)


if __name__ == "__main__":
    main()
