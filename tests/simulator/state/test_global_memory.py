"""Global memory: values, errors and times of ld.global, st.global, cp.async with its groups, and bulk copies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa
import simulator
from simulator.chip.config import Config, load_config
from simulator.errors import ConfigError, TraceError
from simulator.state.global_memory import GlobalMemory, touched
from simulator.state.shared import AddressError
from simulator.studies.validation import gemm
from tests.support.cases import examples

HEAD = ".trace 1\n.target sm_90a\n.warps 1\n.shared 4096\n.global 65536\n"
LANES = "mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 4; mul.wide.u32 %rd0, %r0, 16;"


def _run(
    folder: Path, body: str, *, head: str = HEAD, config: str | Config | None = None, tail: str = "", skip: bool = True
) -> simulator.Report:
    path = folder / "x.trace"
    path.write_text(f"{head}.warp 0 {{\n{LANES}\n{body}\n}}\n{tail}")
    return simulator.run(path, config, skip=skip)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cp.async.cg.shared.global [%r0], [%rd0], 8;", "16"),
        ("cp.async.ca.shared.global [%r0], [%rd0], 12;", "4 or 8 or 16"),
        ("cp.async.cg.shared.global [%r0], [%rd0], 16, 20;", "0 to 16"),
        ("cp.async.wait_group %r1;", "constant"),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd1], 1000, [%r2];",
            "multiple of 16",
        ),
        ("ld.global.b32 %r1, [%r0];", "64-bit"),
    ],
)
def test_refused_as_ptxas_does(text: str, what: str) -> None:
    with pytest.raises(isa.IsaError, match=what):
        isa.decode(text, "sm_90a")


def test_copies_bring_bytes_and_fill_with_zeros(tmp_path: Path) -> None:
    data = np.arange(128, dtype=np.uint32)
    np.savez(tmp_path / "x.npz", x=data)
    report = _run(
        tmp_path,
        """cp.async.cg.shared.global [%r1], [%rd0+1024], 16;
        cp.async.ca.shared.global [%r1+512], [%rd0+1024], 8, 4;
        cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r1];
        st.global.v4.b32 [%rd0+8192], {%r4, %r5, %r6, %r7};""",
        head=HEAD + '.load global[1024], "x.npz", "x";\n',
        tail='.store "g", global[8192], 512;\n.store "s", shared[512], 512;\n',
    )
    assert np.array_equal(report.arrays["g"].view(np.uint32), data)
    part = np.zeros((32, 4), np.uint32)
    part[:, 0] = data[::4]
    assert np.array_equal(report.arrays["s"].view(np.uint32).reshape(32, 4), part)
    assert not report.undefined


def test_bytes_under_way_race(tmp_path: Path) -> None:
    copy = "cp.async.cg.shared.global [%r1], [%rd0], 16; cp.async.commit_group;"
    load = "ld.shared.b32 %r4, [%r1];"
    assert _run(tmp_path, copy + load + "cp.async.wait_group 0;").undefined["shared-memory-race"] == 128
    assert "shared-memory-race" not in _run(tmp_path, copy + "cp.async.wait_all;" + load).undefined
    assert _run(tmp_path, copy + "cp.async.wait_group 1;" + load).undefined["shared-memory-race"] == 128


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("ld.global.b32 %r4, [%rd0+65536];", "outside of the 65536 bytes of global memory"),
        ("ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd0+4];", "misaligned access to 16 bytes at global"),
        ("cp.async.ca.shared.global [%r1], [%rd0+2], 4;", "misaligned"),
        ("setp.lt.s32 %p0, %r0, 4; @%p0 cp.async.commit_group;", "groups are counted by warp"),
        ("cp.async.cg.shared.global [%r1], [%rd0], 16, %r0;", "source size"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(TraceError, match=reason) as error:
        _run(tmp_path, body)
    assert error.value.line > 0


def test_global_memory_is_one_for_all(tmp_path: Path) -> None:
    path = tmp_path / "x.trace"
    path.write_text(HEAD + '.load cta0.global[0], "x.npz", "x";\n')
    with pytest.raises(TraceError, match="which all CTAs share"):
        simulator.run(path)


def test_no_times_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no times for 'ld\.global"):
        _run(tmp_path, "ld.global.b32 %r4, [%rd0];", config=replace(load_config("b200"), memory=None))


@settings(deadline=None, max_examples=examples(50))
@given(
    st.lists(st.integers(0, 4000), min_size=32, max_size=32),
    st.sampled_from((4, 8, 16)),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_touched_counts_lines(places: list[int], width: int, active: list[bool]) -> None:
    addresses, lanes = np.array([places]) * width, np.array([active])
    assert touched(addresses, width, 128).tolist() == [len({place * width // 128 for place in places})]
    assert touched(addresses, width, 32, lanes).tolist() == [
        len({place * width // 32 for place, on in zip(places, active, strict=True) if on})
    ]


def test_memory_checks_bounds() -> None:
    memory = GlobalMemory(64)
    memory.write(np.array([[0, 16]]), np.arange(32, dtype=np.uint8).reshape(1, 2, 16))
    assert memory.read(np.array([16]), 16)[0].tolist() == list(range(16, 32))
    with pytest.raises(AddressError):
        memory.read(np.array([64]), 4)


def test_a_bulk_copy_completes_its_phase(tmp_path: Path) -> None:
    data = np.arange(256, dtype=np.uint32)
    np.savez(tmp_path / "x.npz", x=data)
    body = """setp.eq.u32 %p0, %r0, 0; mov.u32 %r2, 0; mov.u32 %r3, 512; mov.u64 %rd1, 1024;
        @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
        @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
        ld.shared.b32 %r4, [%r1+512];"""
    tail = '.store "s", shared[512], 1024;\n'
    report = _run(tmp_path, body, head=HEAD + '.load global[1024], "x.npz", "x";\n', tail=tail, config="h100_sxm")
    assert np.array_equal(report.arrays["s"].view(np.uint32), data)
    assert not report.undefined
    memory = simulator.chip.config.load_config("h100_sxm").memory
    assert memory is not None
    assert report.cycles > memory.bulk_latency  # the wait lasts until the bytes are there


def test_waits_sum_and_skipping_changes_nothing(tmp_path: Path) -> None:
    body = """.repeat 60 {
        cp.async.cg.shared.global [%r1], [%rd0], 16; cp.async.cg.shared.global [%r1+512], [%rd0+512], 16;
        cp.async.commit_group; cp.async.wait_group 1; ld.shared.b32 %r5, [%r1+1024]; }"""
    whole, skipped = (_run(tmp_path, body, config="h100_sxm", skip=skip) for skip in (False, True))
    assert (whole.cycles, whole.waits) == (skipped.cycles, skipped.waits)
    assert skipped.skipped_cycles > 0
    assert all(sum(row.values()) == whole.cycles for row in whole.waits.values())
    assert whole.waits[0]["global"] > whole.cycles // 2


@pytest.mark.exhaustive
def test_recorded_errors_hold() -> None:
    """The short form of the validation: each main loop within 7 %, and the mean within 3 %."""
    config = simulator.chip.config.load_config("h100_sxm")
    errors = [abs(row.error) for row in gemm.loop_rows(config, True)]
    assert len(errors) == 6
    assert max(errors) < 0.05
    assert sum(errors) / len(errors) < 0.03
