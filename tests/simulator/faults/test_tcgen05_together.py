"""Faults in one `tcgen05.mma` that are computed together, against the same faults executed one by one: every site,
model and policy, drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.faults.models import moves
from simulator.faults.outcomes import DETECTORS, OUTCOMES
from simulator.faults.own import OwnModel
from simulator.faults.table import ALONG, MODELS, SITES, Faults, empty
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.faults.unit.sites import UNIT_SITES
from tests.support.cases import exhaustive

SHAPES: dict[str, dict[str, Any]] = {
    "f16": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::f16", "m": 128, "n": 32},
    "f16 to f16, A in shared memory": {
        "opcode": "tcgen05.mma.sp.cta_group::1.kind::f16", "m": 128, "n": 16, "a_in_tmem": False, "d_type": "f16",
    },
    "base lane 16": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::f16", "m": 64, "n": 8, "base_lane": 16},
    "dense pair in two parts": {"opcode": "tcgen05.mma.cta_group::2.kind::f16", "m": 128, "n": 64},
    "sparse pair": {"opcode": "tcgen05.mma.sp.cta_group::2.kind::f16", "m": 256, "n": 32},
    "i8": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::i8", "m": 128, "n": 16},
    "tf32": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::tf32", "m": 128, "n": 16, "selector": 1},
    "6-bit elements": {
        "opcode": "tcgen05.mma.sp.cta_group::1.kind::f8f6f4", "m": 128, "n": 16, "element": "e3m2", "a_in_tmem": False,
    },
    "ws in two parts": {"opcode": "tcgen05.mma.ws.sp.cta_group::1.kind::f16", "m": 64, "n": 64},
    "ws in four parts": {"opcode": "tcgen05.mma.ws.cta_group::1.kind::f8f6f4", "m": 32, "n": 64},
    "ashift": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::f16.ashift", "m": 128, "n": 16},
    "mxf8": {"opcode": "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", "m": 128, "n": 16},
    "mxf4nvf4": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", "m": 128, "n": 16},
    "mxf8 pair": {"opcode": "tcgen05.mma.sp.cta_group::2.kind::mxf8f6f4.block_scale", "m": 256, "n": 32},
}  # fmt: skip
MANY = pytest.mark.exhaustive
QUICK = ("f16", "dense pair in two parts", "ws in two parts", "mxf4nvf4")


def drawn(it: Tcgen05Target, site: str, count: int, rng: np.random.Generator) -> Faults:
    """Faults of one site: every model, places that are read more often than others, bits and whole words."""
    known = it.sites[site]
    it.take({0: OwnModel("bits * 3 + bit")}, ())
    faults = empty(count)
    live = np.argwhere(known.live)
    places = live[rng.integers(len(live), size=count)]
    anywhere = rng.random(count) < 0.2
    for axis, name in enumerate(("word", "lane")):
        faults[name] = np.where(anywhere, rng.integers(known.live.shape[axis], size=count), places[:, axis])
        second = live[rng.integers(len(live), size=count), axis]
        faults[f"{name}2"] = second
    faults["site"], faults["case"] = SITES.index(site), rng.integers(it.cases, size=count)
    faults["model"] = [MODELS.index(name) for name in rng.choice(known.models, count)]
    faults["mask"] = np.where(
        rng.random(count) < 0.5, np.uint32(1) << rng.integers(32, size=count).astype(np.uint32), 15 << 8
    )
    faults["mask2"] = 15 << 4 * rng.integers(8, size=count)
    faults["value"] = rng.integers(1 << 32, size=count)
    still = ~moves(faults) & (rng.random(count) < 0.3) & (site not in UNIT_SITES)
    faults["lane2"] = np.where(site in UNIT_SITES, -1, faults["lane2"])
    axes = ("words", "lanes", *["rows", "columns"] * (known.operand is not None))
    faults["along"] = np.where(still, [ALONG.index(name) for name in rng.choice(axes, count)], 0)
    faults["span"] = np.where(still, rng.integers(1, 4, size=count), 1)
    faults["value"][faults["model"] == MODELS.index("align")] %= 128
    faults["value"][faults["model"] == MODELS.index("selector")] %= 4
    return faults


def both(it: Tcgen05Target, faults: Faults) -> Any:
    """The results that both ways agree on."""
    faults["id"] = np.arange(len(faults))
    alone = replace(it, together=False)
    alone.take(dict(it.own), ())
    fast, right = it.run(faults), alone.run(faults)
    differ = [
        (it.opcode, it.policy, a, b, f) for a, b, f in zip(fast, right, faults, strict=True) if a.tolist() != b.tolist()
    ]
    assert not differ, differ[:3]
    return fast


@exhaustive
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(name, policy, marks=() if name in QUICK and policy in ("hardware", "zero") else MANY)
        for name in SHAPES
        for policy in ("hardware", "raise", "zero", "saturate")
    ],
)
def test_together_is_what_one_by_one_gives(name: str, policy: str) -> None:
    it = Tcgen05Target(**SHAPES[name], policy=policy, cases=2, misaligned="follow")
    rng = np.random.default_rng(5)
    rows = [drawn(it, site, 40 if site in "ade" or site.startswith("s") else 8, rng) for site in it.sites]
    results = both(it, np.concatenate(rows))
    assert {OUTCOMES[outcome] for outcome in set(results["outcome"])} >= {"masked", "sdc"}
    seen = np.bitwise_or.reduce(results["detectors"])
    assert seen >> DETECTORS.index("abft") & 1
    assert not it.form.sparse or seen >> DETECTORS.index("ordered") & 1


def test_exact_arithmetic_and_numbers_that_are_none() -> None:
    it = Tcgen05Target(**SHAPES["f16"], arithmetic="exact", misaligned="fault")
    rng = np.random.default_rng(6)
    faults = np.concatenate([drawn(it, site, 12, rng) for site in ("a", "d", "e", "shared")])
    faults["model"][:20], faults["mask"][:20] = MODELS.index("stuck1"), 0xFFFFFFFF  # NaN
    assert both(it, faults)["nonfinite"].any()


def test_few_rows_of_d_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of operands execute nothing, and those of an address as many times as there are addresses."""
    it = Tcgen05Target(**SHAPES["f16"])
    rng = np.random.default_rng(7)
    faults = np.concatenate([drawn(it, site, 64, rng) for site in ("a", "e", "d", "shared")])
    faults["along"] = 0  # bursts in shared memory may reach A and B, and are executed
    it.run(faults)
    executed: list[int] = []
    monkeypatch.setattr(type(it.execution), "run", lambda *_: executed.append(1))
    it.run(faults)
    assert not executed
    monkeypatch.undo()
    same = np.repeat(drawn(it, "idesc", 1, rng), 50)
    run = type(it.execution).run

    def counted(*how: Any) -> Any:
        executed.append(1)
        return run(*how)

    monkeypatch.setattr(type(it.execution), "run", counted)
    assert len(set(it.run(same)["outcome"].tolist())) == 1
    assert len(executed) <= 1
