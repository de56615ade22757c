"""Validates published peak rates against the highest throughput of the config: full load of the instruction with the
larger K.

Only chips whose tensor cores, and not the issue of mma, set the limit are here: on Hopper and on data-centre Blackwell
mma.sync does not reach the peak, which is that of wgmma and tcgen05.mma.
"""

from __future__ import annotations

from collections.abc import Mapping

from isa import mma_form
from simulator.chip.config import Config
from simulator.studies.validation.group import Figure, Group, Row, assumed, published, sources
from simulator.studies.validation.mma import FULL_BODY, FULL_CHAINS, FULL_WARPS, types
from simulator.studies.validation.streams import Streams, brief


def peaks() -> Mapping[str, tuple[Figure, ...]]:
    """For each config: opcode, multiply-adds a cycle of an SM as named, source."""
    return published("peaks.csv", "ptx", "fma_per_clk_sm")


def rows(config: Config, short: bool) -> list[Row]:
    """Every published peak of the config's chip. There are few, so the short form is the same.

    Raises:
        ConfigError: the config lacks a form.
    """
    streams, rows = Streams(config), []
    for opcode, figure, _ in peaks()[config.name]:
        form = mma_form(opcode)
        simulated = form.fma * FULL_CHAINS * FULL_WARPS / streams.round(form, FULL_CHAINS, FULL_WARPS, FULL_BODY)
        rows.append(
            Row(
                brief(opcode),
                (("sparse", "sparse" if form.sparse else "dense"), ("types", types(opcode))),
                figure,
                simulated,
                assumed(config, streams.tables(form)),
            )
        )
    return rows


def _group(config: str) -> Group:
    return Group(
        "peak",
        "highest throughput against the peak rate, multiply-adds a cycle of an SM",
        f"published: {sources(peaks()[config])}",
        rows,
        ("sparse",),
    )


GROUPS = {config: (_group(config),) for config in peaks()}
