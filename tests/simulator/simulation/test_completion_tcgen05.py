"""tcgen05, st.async and red.async that complete at any legal time: right kernels give the same bytes in every mode, and
where a wait, a commit or a fence is missing the bytes differ in some mode, and the bug is named in each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.applications import digits_kernels
from simulator.check.launch_finding import LaunchFinding
from simulator.check.watching import watch_once
from simulator.simulation.launch import launching
from simulator.simulation.launch.batches import Executed, Setup, execute
from tests.simulator.check.test_launch_order import COMMIT, KERNELS, ONE, PLANTED, planted
from tests.support.cases import exhaustive, over

MODES = ("earliest", "latest", "seed:0", "seed:1")


@exhaustive
@over("path", sorted(KERNELS.glob("*.json")), ids=lambda path: path.stem, distinct=lambda path: path.stem[:2])
def test_golden_kernels_do_not_notice(path: Path) -> None:
    for mode in MODES[1:3]:
        report = simulator.launch(path, completion=mode, workers=1)
        assert report.differences == (), mode
        assert report.completion is not None
        assert report.completion.clean, (mode, report.completion)


CHANGES = {rule: PLANTED[rule][0] for rule in PLANTED}
OVERWRITTEN = (COMMIT, 0, r"\g<0>\n\tst.shared.b32 [%r3+1008], %r3;")
BUGS: dict[str, tuple[Sequence[tuple[str, int | None, str]], str, str, str]] = {  # changes, mode that differs, words
    "commit": (CHANGES["missing-commit"], "latest", "tcgen05.ld", "that tcgen05.mma of line"),
    "wait": (CHANGES["missing-mbarrier-wait"], "latest", "tcgen05.ld", "missing tcgen05.commit and a wait"),
    "wait::st": (CHANGES["missing-wait-st"], "latest", "tcgen05.mma", "missing tcgen05.wait::st"),
    "proxy": (CHANGES["missing-proxy-fence"], "earliest", "tcgen05.mma", "missing fence.proxy.async"),
    "overwritten": ([OVERWRITTEN], "latest", "st.shared", "bytes that tcgen05.mma of line"),
}


@over("name", sorted(BUGS))
def test_planted_bugs_change_the_result_and_are_named(name: str, tmp_path: Path) -> None:
    changes, differs, later, words = BUGS[name]
    path = planted(tmp_path, ONE, *changes)
    lines = path.with_suffix(".ptx").read_text().splitlines()
    assert not simulator.launch(path, workers=1).differences
    for mode in (differs, "latest" if differs == "earliest" else "earliest"):
        report = simulator.launch(path, completion=mode, workers=1)
        assert bool(report.differences) == (mode == differs), mode
        assert report.completion is not None
        missing = report.completion.missing
        assert any(words in each.what and later in lines[each.line - 1] for each in missing), report.completion


# Small kernels

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 D)
{{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<4>;
.shared .align 16 .b8 tile[1024];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [D];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd1, %rd1, %rd2;
shr.u32 %r2, %r1, 5;
setp.eq.u32 %p1, %r2, 0;
setp.eq.u32 %p2, %r1, 0;
{body}
st.global.b32 [%rd1], %r8;
{end}
ret;
}}
"""
MOVES = """
@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile], 32;
bar.sync 0;
ld.shared.b32 %r5, [tile];
and.b32 %r6, %r2, 3;
shl.b32 %r6, %r6, 21;
add.u32 %r6, %r5, %r6;
add.u32 %r7, %r1, 100;
@%p1 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%r7};
tcgen05.wait::st.sync.aligned;
"""
FREE = """
tcgen05.wait::ld.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32;
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r6];\n"
WAIT = "tcgen05.wait::ld.sync.aligned;\n"
OTHER = """
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
setp.eq.u32 %p3, %r2, 4;
@%p3 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%r1};
tcgen05.wait::st.sync.aligned;
bar.sync 0;
"""  # warp 4 overwrites the cells that warp 0 loads


def run(body: str, mode: str, end: str = "", threads: int = 160) -> tuple[list[int], list[str]]:
    """What the first threads of a kernel store, and what its completion names."""
    out = np.zeros(threads, np.uint32)
    kernel = simulator.Module(KERNEL.format(body=body, end=end)).get_function("k")
    report = kernel(1, threads, (out,), completion=mode)
    named = [] if report.completion is None else [each.what for each in report.completion.missing]
    return out[:32].tolist(), named


def test_a_load_reads_its_cells_until_it_is_waited_for() -> None:
    for mode in ("issue", *MODES):
        assert run(MOVES + LOAD + WAIT + OTHER, mode, FREE) == (list(range(100, 132)), []), mode
    assert run(MOVES + LOAD + OTHER, "issue", FREE)[0] == list(range(100, 132))
    early, late = (run(MOVES + LOAD + OTHER, mode, FREE) for mode in ("earliest", "latest"))
    assert (early[0], late[0]) == (list(range(100, 132)), list(range(128, 160)))
    for _, named in (early, late):
        assert any("cells of Tensor Memory that tcgen05.ld" in each and "tcgen05.wait::ld" in each for each in named)


def test_registers_of_a_load_may_be_read_and_not_be_written_before_the_wait() -> None:
    """PTX ISA 9.0, 9.7.16.6.4.5: true register dependencies are respected."""
    for mode in MODES:
        assert run(MOVES + LOAD, mode, FREE) == (list(range(100, 132)), []), mode
    write = "mov.b32 %r8, 7;\n"
    assert run(MOVES + LOAD + write + WAIT, "issue", FREE)[0] == [7] * 32
    values, named = run(MOVES + LOAD + write + WAIT, "latest", FREE)
    assert values == list(range(100, 132))
    assert any("register that tcgen05.ld" in each for each in named)


STORES = """
@%p2 mbarrier.init.shared::cta.b64 [bar], 1;
mov.b32 %r9, 3;
mad.lo.u32 %r3, %r1, 4, 0;
mov.u32 %r4, tile;
add.u32 %r3, %r3, %r4;
st.shared.b32 [%r3], %r9;
bar.sync 0;
@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
mov.u32 %r10, bar;
add.u32 %r11, %r1, 40;
WORK
mov.b32 %r11, 0;
WAITING
xor.b32 %r12, %r1, 31;
mad.lo.u32 %r12, %r12, 4, %r4;
ld.shared.b32 %r8, [%r12];
"""
SIGNALLED = "shared::cluster.mbarrier::complete_tx::bytes"
WORK = {
    "st.async": f"st.async.{SIGNALLED}.b32 [%r3], %r11, [%r10];",
    "red.async": f"red.async.relaxed.cluster.{SIGNALLED}.add.u32 [%r3], %r11, [%r10];",
}
LOOK = "L: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra L;"


@pytest.mark.parametrize("name", WORK)
def test_asynchronous_stores_come_by_their_mbarrier(name: str) -> None:
    """With what the registers held at issue; who does not wait reads what was there."""
    right = [31 - lane + 40 + 3 * (name == "red.async") for lane in range(32)]
    waits, hurries = (STORES.replace("WORK", WORK[name]).replace("WAITING", look) for look in (LOOK, ""))
    for mode in ("issue", *MODES):
        assert run(waits, mode, threads=32) == (right, []), mode
    assert run(hurries, "issue", threads=32)[0] == right
    found = {mode: run(hurries, mode, LOOK, threads=32) for mode in MODES}
    assert found["latest"][0] == [3] * 32
    for mode, (_, named) in found.items():
        assert any(f"{name} of line" in each and "a wait for its mbarrier" in each for each in named), mode


# The digits layer: tensor maps, products and loads


@exhaustive
def test_the_digits_layer_is_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No finding of `tcsim check`; without the wait for the copies there is one, and the digits differ."""
    found: list[LaunchFinding] = []

    def checking(setup: Setup, workers: int = 1) -> Executed:
        if setup.completion is not None:
            found.extend(watch_once(setup, 64, {}, set(), by_warp=False).findings)
        return execute(setup, 1)

    monkeypatch.setattr(launching, "execute", checking)
    layer = digits_kernels.run("blackwell", completion="issue")
    right = layer.d.copy()
    digits_kernels.run("blackwell", completion="earliest")
    assert not [each for each in found if each.serious]
    text = digits_kernels.GENERATIONS["blackwell"].ptx.read_text()
    wait = "mbarrier.try_wait.parity.shared::cta.b64 done, [%r447], 0;"
    assert wait in text
    module = simulator.Module(text.replace(wait, "setp.eq.u32 done, 0, 0;"))
    monkeypatch.setattr(digits_kernels, "Module", lambda path: module)
    digits_kernels.run("blackwell", completion="earliest")
    assert {each.rule for each in found if each.serious} == {"async-pending"}
    late = digits_kernels.run("blackwell", completion="latest")
    assert (late.d != right).any()
    assert late.report.completion is not None
    assert {each.rule for each in late.report.completion.missing} == {"async-pending"}
