"""What becomes of each published claim here, as a table and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from simulator.studies.faults.claims import anatomy, fault_sets, ft_sparse, single_bits
from simulator.tables import Table

Meter = Callable[[int, int, str], None]


class Outcome(NamedTuple):
    """A claim tried: a row of numbers for each layer, type and set of faults; lines for a person."""

    table: Table
    lines: list[str]


class Claim(NamedTuple):
    """A published claim.

    Attributes:
        title: what is claimed, and where.
        types, faults: what is injected unless asked otherwise: types, and faults of each set.
        tried: the outcome, from types, a number of faults, a seed and a number of images (0: all).
    """

    title: str
    types: tuple[str, ...]
    faults: int
    tried: Callable[[Sequence[str], int, int, int], Outcome]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _ft_sparse(types: Sequence[str], faults: int, seed: int, images: int) -> Outcome:
    found = list(ft_sparse.study(types, faults, seed, images))
    shown: list[dict[str, Any]] = []
    lines: list[str] = []
    for checksums in ft_sparse.CHECKS:
        for names in [("values", "metadata"), *((one.name,) for one in ft_sparse.SETS)]:
            shown.append(_coverage_shown(ft_sparse.summed(found, checksums, names)))
        alarms = {(row.layer, row.type): (row.alarms, row.tiles) for row in found if row.checksums == checksums}
        failed, tiles = (sum(pair[i] for pair in alarms.values()) for i in (0, 1))
        lines.append(f"false alarms, {checksums}: {failed:,} of {tiles:,} tiles without a fault")
    costs = list(ft_sparse.overheads())
    lines += [
        f"time of the kernel of a tile of {tile}: + {_percent(cost['abft'])} (rows and columns), "
        f"+ {_percent(cost['abft rows'])} (rows alone)"
        for tile, cost in costs
    ]
    rows = Table.of(row.record() for row in found)
    return Outcome(rows, [*Table.of(shown).text("<<>").splitlines(), "", *lines])


def _coverage_shown(total: ft_sparse.Coverage) -> dict[str, Any]:
    factor = f"{total.factor:.1f}" if total.missed else f"all seen (over {total.least_factor:.1f})"
    return {
        "checksums": total.checksums, "faults": total.faults, "corrupted inferences": f"{total.corrupted:,}",
        "seen": _percent(total.seen / max(total.corrupted, 1)), "critical": f"{total.critical:,}",
        "of faults": f"{total.critical_faults:,}",
        "critical, not seen": f"{total.missed:,}", "times fewer": factor if total.critical else "",
    }  # fmt: skip


def _anatomy(types: Sequence[str], faults: int, seed: int, images: int) -> Outcome:
    found = list(anatomy.study(types, faults, seed, images))
    shown = []
    for type in (*types, ""):
        for names in [*((one.name,) for one in anatomy.SETS), *((names) for names in _GROUPS if type == "")]:
            total = anatomy.summed(found, names, type)
            record = total.record()
            shown.append(
                {
                    "type": total.type,
                    "faults": _GROUPS.get(names, names[0]),
                    "corrupt": f"{total.corrupting:,}",
                    "words of D": f"{total.words:,}",
                    "one bit": _percent(total.single),
                    "median bits": total.median,
                    "NaN, infinity": _percent(record["nonfinite"]),
                    "faults of one bit": _percent(record["single_bit_faults"]),
                    "faults with NaN": _percent(record["nonfinite_faults"]),
                }
            )
    return Outcome(Table.of(row.record() for row in found), Table.of(shown).text("<<>").splitlines())


_GROUPS = {
    tuple(one.name for one in fault_sets.STORAGE): "storage",
    tuple(one.name for one in fault_sets.REGISTERS): "registers",
    tuple(one.name for one in fault_sets.PORTS): "unit",
}


def _single_bits(types: Sequence[str], faults: int, seed: int, images: int) -> Outcome:
    found = list(single_bits.study(types, faults, seed, images))
    references = {(row.layer, row.type): row for row in found if row.faults == single_bits.REFERENCE}
    rows = [row.record(references[row.layer, row.type]) for row in found]
    shown = []
    for type in types:
        reference = single_bits.summed(found, single_bits.REFERENCE, type)
        for one in single_bits.SETS:
            record = single_bits.summed(found, one.name, type).record(reference)
            each = [row["ratio"] for row in rows if row["faults"] == one.name and row["type"] == type]
            known = [ratio for ratio in each if ratio is not None]
            ends = f" ({100 * record['rate_low']:.2f} to {100 * record['rate_high']:.2f})"
            shown.append(
                {
                    "type": type,
                    "faults": one.name,
                    "corrupted inferences": f"{record['inferences']:,}",
                    "class changed": _percent(record["rate"]) + ends if record["inferences"] else "",
                    "against a bit of D": "" if record["ratio"] is None else f"{record['ratio']:.2f} times",
                    "by layer": f"{min(known):.2f} to {max(known):.2f}" if known else "",
                }
            )
    return Outcome(Table.of(rows), Table.of(shown).text("<<>").splitlines())


CLAIMS = {
    "ft-sparse": Claim(
        f"FT-Sparse (VTS 2026): checksums, up to {ft_sparse.CLAIMED_FACTOR} times fewer critical corruptions at up to "
        f"{_percent(ft_sparse.CLAIMED_OVERHEAD)} more time",
        ("f16", "s8"), 100, _ft_sparse,
    ),
    "anatomy": Claim(
        f"arXiv 2605.04213: single bits are less than {100 * anatomy.CLAIMED_SINGLE:.0f} % of corruptions, NaN and "
        f"infinity {_percent(anatomy.CLAIMED_NONFINITE)}",
        ("f16", "bf16", "s8", "e4m3"), 100, _anatomy,
    ),
    "single-bit": Claim(
        f"arXiv 2211.13094: single-bit injection underestimates misdetections {single_bits.CLAIMED_RATIO} times",
        ("f16", "s8"), 40, _single_bits,
    ),
}  # fmt: skip


def text(claim: Claim, outcome: Outcome, types: Sequence[str], faults: int, seed: int) -> str:
    """A claim and its outcome for a person."""
    how = f"{', '.join(types)}; {faults:,} faults of each set in each of {_layers()} layers, seed {seed}, sm_90a"
    return "\n".join([f"claim: {claim.title}", f"here: {how}", "", *outcome.lines, ""])


def _layers() -> int:
    from simulator.studies.faults.claims.layers import LAYERS

    return len(LAYERS)
