"""Many faults of a launch together give the rows that a launch of each gives."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.faults import outcomes, table
from simulator.faults.outcomes import DUE, MASKED, REASONS, SDC
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.launches import copies
from simulator.faults.targets.launches.single import Ended
from simulator.faults.targets.register_sites import cell
from simulator.faults.unit.sites import UNIT_SITES
from simulator.program.kernel import Operation
from tests.simulator.faults.test_launch_target import CAPTURE, TARGET, row
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN

SPANS = (0, 1, 40, -1)  # for how long a fault is held: once, once, over some instructions, to the end
LAUNCHES = [
    (GOLDEN / "planted" / "bug0.json", 1),  # mma.sp, ldmatrix, cp.async, barriers, four CTAs that share A and B
    (GOLDEN / "launches" / "direct_one_warp.json", 2),  # fragments from global memory
    (GOLDEN / "launches" / "barriers.json", 4),  # bar.red and named barriers
    (GOLDEN / "launches" / "prune_compress.json", 1),  # 33 CTAs, shared memory
    (GOLDEN / "sanitizer" / "captures" / "block_reduce.json", 2),  # lanes that part, and shuffles
]
LONGER = [
    (GOLDEN / "sanitizer" / "captures" / "divergent_loop.json", 1),  # lanes that leave a loop one by one, or never
    (GOLDEN / "launches" / "f16_one_cta.json", 1),
    (GOLDEN / "metadata_launch" / "steps.json", 8),
]


def drawn(target: LaunchTarget, times: int, seed: int = 1) -> Faults:
    """Faults of every site and model, held for every span, at drawn places and times."""
    generator = np.random.default_rng(seed)
    sites = [site for site in target.sites if site not in UNIT_SITES]
    cases = [
        case
        for case in product(sites, MODELS[:5], SPANS)
        if case[1] in target.sites[case[0]].models
        for _ in range(times)
    ]
    faults = table.empty(len(cases))
    faults["id"] = np.arange(len(cases))
    for fault, (site, model, span) in zip(faults, cases, strict=True):
        warp = int(generator.choice(list(target.numbers)))
        word, lane = generator.choice(np.argwhere(target.sites[site].live != 0))
        at = int(generator.integers(-1, target.instructions(warp) + 2))
        at = -1 if site == "global" and span != 40 else at
        until = at + span if span >= 0 and at >= 0 else -1
        values = {"site": SITES.index(site), "model": MODELS.index(model), "case": warp, "word": word, "lane": lane,
                  "at": at, "until": until, "mask": 1 << int(generator.integers(target.sites[site].size)),
                  "value": generator.integers(1 << 32)}  # fmt: skip
        for name, value in values.items():
            fault[name] = value
    return faults


@pytest.mark.parametrize(("path", "times"), LAUNCHES, ids=lambda given: getattr(given, "stem", ""))
def test_rows_are_those_of_single_launches(path: Path, times: int) -> None:
    together = LaunchTarget(path)
    assert together.copies is not None
    faults = drawn(together, times)
    assert (together.run(faults) == LaunchTarget(path, together=False).run(faults)).all()


@exhaustive
@pytest.mark.parametrize(
    ("path", "times", "policy"),
    [
        *((*each, "hardware") for each in (*LAUNCHES, *LONGER)),
        *((*each, "raise") for each in (LAUNCHES[0], LONGER[-1])),
    ],
    ids=lambda given: getattr(given, "stem", given),
)
def test_many_more_rows(path: Path, times: int, policy: str) -> None:
    together = LaunchTarget(path, policy=policy)
    faults = drawn(together, 2 * times, seed=2)
    assert (together.run(faults) == LaunchTarget(path, policy=policy, together=False).run(faults)).all()


def test_few_faults_need_a_launch_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where moments, registers and memory are kept apart in many batches."""
    target = LaunchTarget(CAPTURE)
    faults = drawn(target, 3)
    expected = target.run(faults)
    assert target.copies is not None
    target.copies.most = 7
    launched = Counter[str]()
    real = LaunchTarget._launched

    def counted(*given: Any) -> Ended:
        launched["launches"] += 1
        return real(*given)

    monkeypatch.setattr(LaunchTarget, "_launched", counted)
    assert (target.run(faults[::-1])[::-1] == expected).all()
    assert launched["launches"] < len(faults) / 20


def test_copies_that_go_on_too_long_are_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    target = LaunchTarget(GOLDEN / "launches" / "direct_one_warp.json")
    faults = drawn(target, 1)
    expected = target.run(faults)
    monkeypatch.setattr(copies, "LONG", 0)
    monkeypatch.setattr(copies, "FEW", 10)
    assert (target.run(faults) == expected).all()


def test_kernels_whose_ctas_wait_for_each_other_are_launched() -> None:
    assert LaunchTarget(GOLDEN / "launches" / "chain.json").copies is None
    assert LaunchTarget(GOLDEN / "launches" / "chain.json").batch == 1
    assert TARGET.batch > 1


# What the sites are


def _barrier(warp: int) -> int:
    """The first barrier among the dynamic instructions of a warp."""
    return next(at for at in range(TARGET.instructions(warp)) if "bar" in getattr(TARGET.item(warp, at), "opcode", ""))


def test_shared_memory_holds_the_tile_of_one_cta() -> None:
    """A flips in global memory concern all of a row of D; in the tile of a CTA, which has 80 bytes a row, its part."""
    r, c = 5, 6
    first, _ = TARGET.buffers["A"]
    everywhere, _ = TARGET.alone(row("global", first + (r * 96 + c) // 2, 0x40)[0])
    here = row("shared", (r * 80 + c * 2) // 4, 0x40, at=_barrier(0) + 1)
    inside, injection = TARGET.alone(here[0])
    assert injection.changed
    right = TARGET._golden.arrays["D"].view(np.uint32)
    left, both = (ended.arrays["D"].view(np.uint32) for ended in (inside, everywhere))
    assert (both[r] != right[r]).all()
    assert (left[:, :32] == both[:, :32]).all()
    assert (left[:, 32:] == right[:, 32:]).all()
    assert TARGET.run(here)["outcome"].tolist() == [SDC]


def test_halves_of_wide_registers() -> None:
    """The address of a store: one bit of its low half moves an element within D, one of its high half leaves it."""
    warp = 1
    at = next(i for i in range(TARGET.instructions(warp) - 1, 0, -1)
              if "st.global" in getattr(TARGET.item(warp, i), "opcode", ""))  # fmt: skip
    item = TARGET.item(warp, at)
    assert isinstance(item, Operation)
    wide = next(name for name in item.instruction.reads if name.startswith("%rd"))
    word = TARGET.kernel.numbering.words + 2 * int(wide[3:])
    assert str(cell(TARGET.kernel.numbering, "registers", word + 1).number) == wide[3:]
    low, high, odd = (row("registers", word + half, mask, lane=9, warp=warp, at=at)
                      for half, mask in ((0, 1 << 3), (1, 1 << 3), (0, 1)))  # fmt: skip
    results = np.concatenate([TARGET.run(one) for one in (low, high, odd)])
    assert results["outcome"].tolist() == [SDC, DUE, DUE]
    assert results["elements"][0] in (1, 2)
    assert [REASONS[number] for number in results["reason"]] == ["", "illegal", "misaligned-address"]


def test_a_buffer_is_struck_while_the_launch_runs() -> None:
    """A word of A behind the barrier that its copy is waited for at: nobody reads it any more; one of D that is written
    then: it stays."""
    first, _ = TARGET.buffers["A"]
    late = np.concatenate([row("global", first + 3, 0x40, at=TARGET.instructions(0)), row("global", first + 3, 0x40)])
    assert TARGET.run(late)["outcome"].tolist() == [MASKED, SDC]
    stored, _ = TARGET.buffers["D"]
    over = np.concatenate([row("global", stored, 0x40, at=TARGET.instructions(0)), row("global", stored, 0x40)])
    results = TARGET.run(over)
    assert results["outcome"].tolist() == [SDC, MASKED]
    assert (results["elements"][0], results["first_row"][0], results["first_column"][0]) == (1, 0, 0)
    assert REASONS[TARGET.run(row("global", 3, 1, at=9_999))["reason"][0]] == "unread"
    assert set(outcomes.texts(results)[0].split(",")) >= {"sdc"}
