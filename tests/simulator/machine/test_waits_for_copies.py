"""A warp that waits for groups of copies goes on once, whenever they are written."""

from __future__ import annotations

import pytest

import simulator

COPY = "cp.async.cg.shared.global [%r4+{0}], [%rd0+{0}], 16;"


@pytest.mark.parametrize("additions", [0, 32, 60, 64, 68, 90])
def test_a_wait_ends_once_where_copies_take_shared_memory(additions: int) -> None:
    """The first group is written before the wait, at it or behind it, the second in a cycle that is not known then."""
    body = [
        "mov.u32 %r60, %laneid; shl.b32 %r4, %r60, 4; mul.wide.u32 %rd0, %r60, 16;",
        COPY.format(0),
        "cp.async.commit_group;",
        *(COPY.format(offset) for offset in (2048, 2560)),
        "cp.async.commit_group;",
        *["add.u32 %r9, %r9, 1;"] * additions,
        "cp.async.wait_group 1;",
    ]
    text = f".trace 1\n.target sm_90a\n.warps 1\n.shared 8192\n.global 8192\n.warp 0 {{\n{' '.join(body)}\n}}\n"
    config = simulator.load_config("h100_sxm", {"memory.write_cycles": 40})
    report = simulator.run(text, config, arithmetic="none")
    assert config.memory is not None
    assert report.cycles > config.memory.copy_latency
