"""Validates published peak rates against the highest throughput of the config: full load of the instruction with the
larger K.

Only chips whose tensor cores, and not the issue of mma, set the limit are here: on Hopper and on data-centre Blackwell
mma.sync does not reach the peak, which is that of wgmma and tcgen05.mma.
"""

from __future__ import annotations

from functools import cache

from isa import mma_form
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row, assumed
from simulator.studies.validation.mma import FULL_BODY, FULL_CHAINS, FULL_WARPS, types
from simulator.studies.validation.streams import Streams, brief
from simulator.tables import read_rows
from simulator.timing.config import Config

_FILE = "peaks.csv"


@cache
def peaks() -> dict[str, tuple[tuple[str, float, str], ...]]:
    """For each config: opcode, multiply-adds a cycle of an SM as named, source."""
    by_config: dict[str, list[tuple[str, float, str]]] = {}
    for row in read_rows(folder("configs") / "measurements" / _FILE):
        by_config.setdefault(row["config"], []).append((row["ptx"], float(row["fma_per_clk_sm"]), row["source"]))
    return {config: tuple(rows) for config, rows in by_config.items()}


def rows(config: Config, short: bool) -> list[Row]:
    """Every published peak of the config's chip. There are few, so the short form is the same.

    Raises:
        ConfigError: the config lacks a form.
    """
    streams, rows = Streams(config), []
    for opcode, published, _ in peaks()[config.name]:
        form = mma_form(opcode)
        simulated = form.fma * FULL_CHAINS * FULL_WARPS / streams.round(form, FULL_CHAINS, FULL_WARPS, FULL_BODY)
        rows.append(
            Row(
                brief(opcode),
                (("sparse", "sparse" if form.sparse else "dense"), ("types", types(opcode))),
                published,
                simulated,
                assumed(config, streams.tables(form)),
            )
        )
    return rows


def _group(sources: tuple[str, ...]) -> Group:
    return Group(
        "peak",
        "highest throughput against the peak rate, multiply-adds a cycle of an SM",
        f"published: {'; '.join(sources)}",
        rows,
        ("sparse",),
    )


GROUPS = {config: (_group(tuple(dict.fromkeys(source for *_, source in found))),) for config, found in peaks().items()}
