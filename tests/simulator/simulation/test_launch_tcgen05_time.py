"""Times of tcgen05 in launches of kernels, against the traces of the same kernels.

The expected numbers come from traces, whose times are compared with published measurements (`tcsim validate --config
b200`), and from the published intervals themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import isa
import simulator
from simulator.compiler.jobs import price
from simulator.errors import ConfigError
from simulator.execute.dynamic_info import BulkFacts, BulkGroupFacts, BulkStoreFacts
from simulator.program.sass import MachineCodeError
from simulator.studies.gemm.tcgen05.operands import places
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile, parse_tcgen05_tile
from simulator.studies.gemm.tcgen05.trace import tcgen05_trace
from tests.simulator.simulation.test_launch_tcgen05 import MODULE, allocate, free
from tests.support.cases import exhaustive, over
from tests.support.paths import GOLDEN
from tests.support.ptx_of_trace import ptx_of_trace
from tests.support.timeline_formats import check_chrome

Tcsim = Callable[..., tuple[int, str, str]]
KERNELS = sorted((GOLDEN / "tcgen05").glob("*.json"))
ALONE = [path for path in KERNELS if "c2" not in path.stem]
CONFIG = simulator.load_config("b200")
START = 1000  # cycles that a launch takes more than its trace: its start, and machine code that is fetched


def launched(tile: Tcgen05Tile, text: str, config: str = "b200") -> simulator.LaunchReport:
    """A trace of a tile as a kernel, on zeros."""
    size = int(re.findall(r"^\.global (\d+)", text, re.M)[0])
    function = simulator.Module(ptx_of_trace(text)).get_function("k")
    memory = (np.zeros(size, np.uint8),)
    return function(1, 32 * tile.warps, memory, shared_mem=tile.shared_bytes, config=config, workers=1)


TILES = [  # tile, type, sparse, kind, cycles of an iteration of one SM by the published rules, where they bound it
    ("128x256", "f16", False, "", 4 * 128),
    ("128x128", "f16", True, "", 4 * 96 + 116),  # operands; and a copy of metadata with its wait
    ("128x256", "s8", False, "", 4 * 128),
    ("128x64", "e4m3", True, "", 4 * 64 + 104),
    ("128x128", "e2m1", True, "mxf4", 540),
    ("128x256", "f16", True, "", 0),
]


@exhaustive
@over(("shape", "type", "sparse", "kind", "interval"), TILES, ids=str, distinct=lambda *case: case[2])
def test_a_kernel_takes_the_time_of_its_trace(shape: str, type: str, sparse: bool, kind: str, interval: int) -> None:
    """Warps that copy, multiply and store, over two numbers of iterations: what each further one takes is the same, and
    the whole differs by the start of a launch."""
    tile = parse_tcgen05_tile(shape, type, sparse=sparse, kind=kind)
    few, many, found = 8, 16, []
    for iterations in (few, many):
        text = tcgen05_trace(tile, iterations * tile.bk)
        timing = launched(tile, text).timing
        assert timing is not None
        found.append((simulator.run(text, config="b200", arithmetic="none").cycles, timing.cycles))
        assert 0 < found[-1][1] - found[-1][0] < START
    trace, launch = (steady / (many - few) for steady in np.diff(found, axis=0)[0].tolist())
    assert launch == pytest.approx(trace, rel=0.01)
    if interval:
        assert launch == interval


def test_copies_by_tensor_maps_feed_the_unit() -> None:
    """The same kernel with maps of row-major A and B: its D is numpy's product, and products bound each iteration."""
    tile = parse_tcgen05_tile("128x256", "f16", sparse=False)
    cycles, generator = [], np.random.default_rng(5)
    for iterations in (8, 16):
        k = iterations * tile.bk
        where, text = places(tile, k), tcgen05_trace(tile, k)
        operands = [generator.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (tile.bm, tile.bn)]
        maps = [
            (isa.TensorMap("f16", (k, len(each)), (2 * k,), (tile.bk, len(each)), swizzle=128), each)
            for each in operands
        ]
        memory = np.zeros(where.size, np.uint8)
        function = simulator.Module(ptx_of_trace(text, {5: tile.bk, 6: tile.bk})).get_function("k")
        report = function(1, 256, (memory, *maps), shared_mem=tile.shared_bytes, config="b200", workers=1)
        d = memory[where.d : where.d + 4 * tile.bm * tile.bn].view(np.float32).reshape(tile.bn, tile.bm).T
        a, b = (each.astype(np.float32) for each in operands)
        assert (d == a @ b.T).all()
        assert report.fma == tile.bm * tile.bn * k
        timing = report.timing
        assert timing is not None
        assert timing.tensor_busy == pytest.approx(512 * iterations / timing.cycles, rel=0.05)
        cycles.append(timing.cycles)
    assert cycles[1] - cycles[0] == 8 * 512


@exhaustive
@over("path", ALONE, ids=lambda path: path.stem, distinct=lambda path: path.stem.split("_")[0])
def test_kernels_of_one_cta_have_a_time(path: Path) -> None:
    report = simulator.launch(path, "b200", workers=1)
    timing, arrays = report.timing, np.load(path.with_suffix(".npz"))
    assert timing is not None
    assert not report.differences
    k = arrays["in|B"].size // arrays["out|D"].shape[1] * (2 if path.stem.startswith("mxf4") else 1)  # two in a byte
    assert report.fma == arrays["out|D"].size * k
    assert sum(timing.stalls.values()) == pytest.approx(timing.active_warps * timing.cycles, rel=0.1)
    assert timing.stalls["mbarrier"] > 100  # for the first product, and its commit
    assert timing.stalls["tmem"] > 0
    busy = timing.units_busy["tcgen05"]
    assert 0 < timing.tensor_busy <= busy < 1
    sparse = "_sp_" in path.stem
    assert any(text.startswith("[tcgen05 sparse ") for text in timing.assumed) == sparse
    assert any(text.startswith("[tcgen05.mbarrier] ") for text in timing.assumed)


def test_measured_chips_assume_nothing_of_ordinary_kernels() -> None:
    timing = simulator.launch(GOLDEN / "launches" / "direct_one_warp.json", "h100_sxm", workers=1).timing
    assert timing is not None
    assert timing.assumed == ()
    assert timing.units_busy == {}


SPIN = """
@%p1 {alloc}
bar.sync 0;
ld.shared.b32 %r5, [slots];
shl.b32 %r6, %r2, 21;
add.u32 %r5, %r5, %r6;
mov.u32 %r10, 0;
LOOP:
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {{%r1}};
tcgen05.wait::st.sync.aligned;
add.u32 %r10, %r10, 1;
setp.lt.u32 %p4, %r10, 40;
@%p4 bra LOOP;
bar.sync 0;
sub.u32 %r5, %r5, %r6;
@%p1 {free}"""


@pytest.mark.parametrize(("columns", "turns"), [(512, 4), (256, 2), (128, 1)])
def test_ctas_of_an_sm_share_its_columns(columns: int, turns: int) -> None:
    """Four CTAs that an SM has room for: as many at a time go on as Tensor Memory has columns for."""
    chip = simulator.load_config("b200", {"chip.sms": 2})
    body = SPIN.format(alloc=allocate(0, columns), free=free(5, columns))
    function = simulator.Module(MODULE.format(body=body)).get_function("k")
    cycles = []
    for ctas in (1, 8):
        timing = function(ctas, 128, (np.zeros((ctas, 128), np.uint32),), config=chip, workers=1).timing
        assert timing is not None
        cycles.append(timing.cycles)
    one = cycles[0] - 500  # without start and first loads
    assert cycles[1] - cycles[0] == pytest.approx((turns - 1) * one, abs=0.1 * one)


PRODUCTS = """
@%p1 {alloc}
bar.sync 0;
ld.shared.b32 %r5, [slots];
setp.eq.u32 %p3, %r1, 0;
mov.b64 %rd3, {descriptor:#x};
mov.b32 %r7, {idesc:#x};
@!%p3 bra DONE;
mbarrier.init.shared::cta.b64 [slots+16], 1;
{products}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [slots+16];
mov.u32 %r8, 0;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [slots+16], %r8;
@!%p5 bra WAIT;
DONE:
bar.sync 0;
@%p1 {free}"""


@pytest.mark.parametrize("count", [8, 48])
def test_a_full_queue_holds_the_thread(count: int) -> None:
    """More products than the queue has room for: all take the unit's time, and the thread waits for room in between."""
    assert CONFIG.tcgen05 is not None
    idesc = isa.InstructionDescriptor("f16", m=128, n=128, a_type="f16", b_type="f16", d_type="f32").encode()
    product = "tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd3, %rd3, %r7, 0;"
    body = PRODUCTS.format(
        alloc=allocate(0, 128),
        free=free(5, 128),
        descriptor=1 << 46,
        idesc=idesc,
        products="\n".join([product] * count),
    )
    function = simulator.Module(MODULE.format(body=body)).get_function("k")
    timing = function(1, 128, (np.zeros(128, np.uint32),), shared_mem=1024, config="b200", workers=1).timing
    assert timing is not None
    assert ("tcgen05" in timing.stalls) == (count > CONFIG.tcgen05.queue.queue)
    assert timing.units_busy["tcgen05"] * timing.cycles > 64 * count
    assert timing.cycles > 64 * count


def test_timelines_and_texts_show_the_unit(tcsim: Tcsim, tmp_path: Path) -> None:
    path, file = GOLDEN / "tcgen05" / "f16_sp_m128_sel1.json", tmp_path / "t.json"
    code, out, err = tcsim("launch", str(path), "--config", "b200", "--timeline", str(file))
    assert code == 0, err
    assert re.search(r"tensor pipes busy 0\.\d %, tcgen05 unit taken \d\.\d %\n", out)
    assert "assumed: [tcgen05 sparse f16] assumed: " in out
    slices = check_chrome(json.loads(file.read_text()))
    (unit,) = (entries for (_, row), entries in slices.items() if row == "tcgen05")
    assert [entry["name"] for entry in unit] == ["tcgen05.mma"]
    assert unit[0]["end"] - unit[0]["begin"] == 64  # M = 128, N = 64, K = 32: operands of 8 KB


def test_the_units_of_a_pair_start_together() -> None:
    """A product of cta_group::2 takes the units of both SMs: on each as long as in a trace, from the same cycle on."""
    seen = simulator.Timeline()
    simulator.launch(GOLDEN / "tcgen05" / "c2_i8_sp_m256.json", "b200", arithmetic="none", timeline=seen)
    spans: dict[tuple[int, int], set[int]] = {}
    for use in seen.recorder.taken:
        if use.name == "tcgen05" and use.core is None:
            spans.setdefault((use.begin, use.end), set()).add(use.sm)
    assert spans
    assert all(sms == {0, 1} for sms in spans.values())


def test_what_has_no_time_in_launches(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line \d+: h100_sxm has no times for 'tcgen05.alloc.*\[tcgen05\], such as"):
        simulator.launch(ALONE[0], "h100_sxm")
    with pytest.raises(MachineCodeError, match=r"'tcgen05.alloc' \(line \d+\) is not followed in machine code"):
        simulator.launch(ALONE[0], "b200", machine_code=tmp_path / "any.sass")
    wgmma = GOLDEN / "launches" / "wgmma_n.json"
    with pytest.raises(MachineCodeError, match=r"'wgmma[^']*' \(line \d+\) is not followed in machine code"):
        simulator.launch(wgmma, "h100_sxm", machine_code=tmp_path / "any.sass")


@pytest.mark.parametrize(
    ("fact", "key"),
    [
        (BulkFacts((0, 0), 4096, 32, tensor=True), "tensor_latency"),
        (BulkStoreFacts(4096), "bulk_store_bytes"),
        (BulkGroupFacts(0), "bulk_store_bytes"),
    ],
)
def test_copies_whose_time_a_config_does_not_say(fact: BulkFacts, key: str) -> None:
    """Chips before Hopper have no such keys; those from Hopper on do."""
    before = simulator.load_config("rtx4090")
    with pytest.raises(ConfigError, match=rf"memory\.{key}: line 7: rtx4090 has no times for .*as h100_sxm has"):
        price(fact, before, 7)
    for name in ("h100_sxm", "b200", "b300", "jetson_thor", "rtx5090"):
        assert price(fact, simulator.load_config(name), 7) is None
    assert price(BulkFacts((0, 0), 4096, 32), before, 7) is None
    memory = before.memory
    assert memory is not None
    assert memory.held(first=False, tensor=False) == memory.held(first=True, tensor=False) == memory.bulk_cycles
    hopper = replace(memory, tensor_cycles=(145, 60))
    assert [hopper.held(first, tensor) for first in (True, False) for tensor in (True, False)] == [
        145, hopper.bulk_cycles, 60, 60,
    ]  # fmt: skip
