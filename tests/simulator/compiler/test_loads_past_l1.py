"""What L1 has is for plain loads alone: what must see other CTAs goes to L2, each time."""

from __future__ import annotations

import numpy as np
import pytest

import simulator

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry chase(.param .u64 words)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd0, [words];
    mov.u32 %r1, 0;
    {body}
    st.global.u32 [%rd0+128], %r1;
    ret;
}}
"""
STEP = "cvt.u64.u32 %rd1, %r1; add.s64 %rd2, %rd0, %rd1; {load}"


def cycles(load: str, steps: int) -> int:
    """Those of a kernel that loads so often from the address that the last load has given."""
    body = STEP.format(load=load) * steps
    kernel = simulator.Module(KERNEL.format(body=body)).get_function("chase")
    report = kernel(1, 32, (np.zeros(64, np.uint32),), config="h100_sxm")
    assert report.cycles is not None
    return report.cycles


@pytest.mark.parametrize(
    ("load", "past"),
    [
        ("ld.global.u32 %r1, [%rd2];", False),
        ("ld.global.ca.u32 %r1, [%rd2];", False),
        ("ld.relaxed.cta.global.u32 %r1, [%rd2];", False),
        ("ld.global.cg.u32 %r1, [%rd2];", True),
        ("ld.volatile.global.u32 %r1, [%rd2];", True),
        ("ld.acquire.gpu.global.u32 %r1, [%rd2];", True),
        ("atom.global.add.u32 %r1, [%rd2], 0;", True),
    ],
)
def test_a_step_takes_the_latency_of_l1_or_l2(load: str, past: bool) -> None:
    config = simulator.load_config("h100_sxm")
    assert config.memory is not None
    step = cycles(load, 4) - cycles(load, 3)
    assert (step >= config.memory.latency) == past
    assert step >= config.memory.l1_latency
