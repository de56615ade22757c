"""Damaged lists, results and campaigns of faults: one clear error, whatever byte is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from isa import IsaError
from simulator.errors import ConfigError, TraceError
from simulator.faults.campaign import read_campaign
from simulator.faults.run import subject_of
from simulator.faults.table import read_blocks, read_head
from simulator.studies.faults import report
from simulator.studies.faults.summary import summarise
from simulator.views.faults.replay import fault_of, replay, text
from tests.support.cases import alike, examples, over
from tests.support.damage import damaged

Tcsim = Callable[..., tuple[int, str, str]]
SUBJECTS = {
    "mma": 'opcode = "mma.sp.m16n8k16.f32.f16.f16.f32"',
    "tcgen05": 'opcode = "tcgen05.mma.sp.cta_group::1.kind::f16"\nm = 64\nn = 8\nbase_lane = 16',
    "trace": 'trace = "digits/f16"',
}
GROUPS = {
    "mma": [("e", "flip"), ("e", "swap"), ("selector", "selector")],
    "tcgen05": [("e", "flip"), ("base_e", "align"), ("idesc", "flip")],
    "trace": [("registers", "flip"), ("shared", "stuck1")],
}


@over("seed", range(3), distinct=alike)
@over("kind", SUBJECTS, distinct=alike)  # their files are read by the same functions
def test_nothing_but_clear_errors_comes_out(kind: str, seed: int, tmp_path: Path, tcsim: Tcsim) -> None:
    rng = random.Random(f"{kind} {seed}")
    few = {True: "count = 8", False: ""}
    groups = "".join(
        f'[[faults]]\nsite = "{site}"\nkind = "{fault}"\n{few[fault not in ("selector", "align")]}\n'
        for site, fault in GROUPS[kind]
    )
    campaign, listed, results, broken = (tmp_path / name for name in ("c.toml", "l.csv", "r.csv", "x"))
    campaign.write_text(f"[campaign]\nseed = {seed}\n[subject]\n{SUBJECTS[kind]}\n{groups}")
    assert tcsim("faults", "list", campaign, "--output", listed) == (0, "", "")
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    refused = 0
    for _ in range(examples(150, 30) if kind == "mma" else examples(12, 8)):
        source = rng.choice((campaign, listed, results))
        broken.write_bytes(damaged(source.read_bytes(), rng))
        try:
            if source == campaign:
                list(read_campaign(broken).faults())
            elif source == listed:
                found = read_head(broken)
                subject = subject_of(found)
                for rows in read_blocks(found):
                    subject.run(rows)
                assert text(replay(subject, fault_of(found, 3)))
            else:
                summary = summarise(broken)
                assert report.as_text(summary)
                assert report.as_html(summary)
        except (TraceError, ConfigError, IsaError):
            refused += 1
    assert refused > 3
