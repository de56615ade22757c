"""Hypothetical cores: the published speed-ups, the counts behind them, and files that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isa.patterns import parse_pattern
from isa.ptx.opcodes import mma_form
from isa.sparsity.forms import pattern_form
from simulator.chip.config import load_config
from simulator.errors import ConfigError, DesignError
from simulator.resources import folder
from simulator.studies import designs
from simulator.studies.designs.chip import TILES, need
from simulator.studies.designs.cost import bitmap_cost, random_mask, row_classes, stream_cost
from simulator.studies.designs.record import Bitmap, Layer, Stream
from simulator.studies.gemm import estimate, parse_tile

Tcsim = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(("name", "most"), [("vegeta", 0.05), ("dstc", 0.11), ("stc_flexible", 0.001)])
def test_published_speedups(name: str, most: float) -> None:
    report = designs.evaluate(name)
    published = [e for e in report.evaluations if e.case.published is not None]
    assert len(published) >= 5
    assert report.worst is not None
    assert report.worst < most


def test_a_case_without_a_published_number_has_no_error() -> None:
    report = designs.evaluate("highlight")
    assert report.worst is None
    assert [round(e.speedup, 3) for e in report.evaluations] == [2, 2.5, 3, 4]


def test_rows_of_vegeta_by_hand() -> None:
    """Without fill and drain, rows of 64 random columns give the published 2.36 and 3.28, as the binomial says."""
    mask = np.zeros((3, 64), np.bool_)
    mask[1, [0, 1, 63]] = mask[2, 8:11] = True
    assert row_classes(mask, (1, 2, 4), 64).tolist() == [[1], [2], [4]]
    for density, published in ((0.1, 2.36), (0.05, 3.28)):
        q = 1 - density
        one, two = (q**4 + 4 * density * q**3), (q**4 + 4 * density * q**3 + 6 * density**2 * q**2)
        exact = 0.25 * one**16 + 0.5 * (two**16 - one**16) + 1 - two**16
        assert 1 / exact == pytest.approx(published, rel=2e-3)
        sampled = row_classes(random_mask(4096, 64, density, 3), (1, 2, 4), 64).mean() / 4
        assert sampled == pytest.approx(exact, rel=0.03)


def test_outer_products_against_a_loop() -> None:
    core, a, b = Bitmap(32, 32, 8, 16), parse_pattern("u0.3"), parse_pattern("u0.4")
    cost = bitmap_cost(core, Layer("", 64, 32, 8), a, b)
    left, right = random_mask(64, 8, 0.3, 0), random_mask(32, 8, 0.4, 1)
    work = [
        sum(-(-left[32 * tile : 32 * tile + 32, k].sum() // 8) * -(-right[:, k].sum() // 16) for k in range(8))
        for tile in range(2)
    ]
    assert cost.cycles == sum(work)
    assert cost.imbalance == pytest.approx(max(work) / np.mean(work))
    assert bitmap_cost(core, Layer("", 64, 32, 8), None, None).cycles == 2 * 8 * 4 * 2


def test_stream_counts() -> None:
    """By hand: 1:4 of 64 x 64 x 128: 256 stored products a column in 1024 multipliers; B once, A with 2 of 8 bits."""
    core = Stream(1024, 64, 128, 16, 42, 8)
    cost = stream_cost(core, Layer("", 64, 128, 64), parse_pattern("1:4"), None, compresses_b=False)
    assert cost.limits == {"multipliers": 64 * 16 * 128 / 1024, "shared memory": (64 * 16 * 1.25 + 64 * 128) / 42}
    assert cost.bound == "shared memory"


def test_ports_give_the_measured_intervals() -> None:
    """The rule that gives the interval of 1:4, for every class of the H100, the H800 and the A100 that has a part for
    products. Registers are those of the forms."""
    for config in map(load_config, ("h100_sxm", "h800_pcie", "a100")):
        assert config.operands is not None
        for tensor in (tensor for tensor in config.tensor if tensor.multiply):
            assert max(tensor.multiply, config.operands.cycles(tensor.words, 2)) == tensor.interval, tensor.name
    form = mma_form("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
    known = load_config("h100_sxm").tensor_class(form)
    assert known is not None
    assert known.words == form.a.registers + form.b.registers + form.c.registers + 1


def test_a_chip_with_one_instruction_more() -> None:
    """Its own class counts for its instruction alone."""
    config, chip = designs.design_config("h100_1of4"), load_config("h100_sxm")
    own = pattern_form("mma.sp[1:4].m16n8k64.f32.f16.f16.f32")
    assert config.tensor_cycles(own) == 10
    assert chip.tensor_class(own) is None
    for form in map(mma_form, ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",)):
        assert config.tensor_class(form) == chip.tensor_class(form)
    rows = designs.needs("h100_1of4").records()
    assert [row["pattern"] for row in rows] == ["dense", "2:4", "1:4"] * len(TILES)
    assert all(row["full_speedup"] == 4 for row in rows[2::3])


def test_factors_multiply_to_the_whole(tcsim: Tcsim) -> None:
    """In tables, JSON and CSV alike; only what a person reads is rounded."""
    frame = designs.needs("h100_1of4").to_frame()
    for row in (*frame.to_dict("records"), *json.loads(tcsim("design", "h100_1of4", "--format", "json")[1])):
        assert row["tensor_speedup"] * row["tensor_needed"] == pytest.approx(row["full_speedup"], rel=1e-12)
    for row in designs.evaluate("stc_flexible").to_frame().to_dict("records"):
        if "," not in row["layers"] and row["layers"] != "all":
            assert row["speedup"] * row["cycles"] == pytest.approx(row["dense_cycles"], rel=1e-12)
        if row["error_percent"] is not None:
            assert row["speedup"] == pytest.approx(row["published"] * (1 + row["error_percent"] / 100), rel=1e-12)
    assert " 2.469 " in tcsim("design", "h100_1of4")[1]


@pytest.mark.exhaustive
def test_needs_agree_with_the_engine() -> None:
    """2:4 over dense, all of it in L2: counted, and simulated cycle by cycle, where gaps that nothing fills count."""
    config = designs.design_config("h100_1of4")
    dense, sparse = (
        mma_form(f"mma.{sp}sync.aligned.m16n8k{k}.row.col.f32.f16.f16.f32")
        for sp, k in (("", 16), ("sp::ordered_metadata.", 32))
    )
    for rows, columns, *warps in TILES[:2]:
        tile = (rows, columns, warps[0], warps[1])
        counted = need(dense, tile, config, dense).cycles / need(sparse, tile, config, dense).cycles
        runs = [
            estimate(parse_tile(f"{rows}x{columns}", "f16", warps=(warps[0], warps[1]), sparse=s), 1024, 1024, 4096)
            for s in (False, True)
        ]
        assert counted == pytest.approx(runs[0].iteration_cycles / runs[1].iteration_cycles, rel=0.14)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("row_step", "row_stp", "did you mean 'row_step'"),
        ('pattern = "u0.9"', 'pattern = "9:u"', "no sparsity pattern"),
        ('b = "dense"', 'layers = ["x"]', "no layer 'x'"),
        ('core = "bitmap"', 'core = "bitmaps"', "tiles, bitmap, stream, chip"),
        ("row_step = 8", "row_step = 0", "from 1"),
        ('source = "published: Sparseloop', 'source = "said: Sparseloop', '"assumed: ..."'),
        ("[bitmap]", "[bitmapp]", "did you mean 'bitmap'"),
    ],
)
def test_wrong_files_name_the_key(tmp_path: Path, was: str, becomes: str, said: str) -> None:
    text = (folder("configs") / "designs" / "dstc.toml").read_text()
    assert was in text
    (tmp_path / "mine.toml").write_text(text.replace(was, becomes, 1))
    with pytest.raises(ConfigError, match=r"mine\.toml") as error:
        designs.load_design(tmp_path / "mine.toml")
    assert said in str(error.value)


def test_what_a_core_cannot_do_is_refused() -> None:
    with pytest.raises(DesignError, match="chip"):
        designs.evaluate("h100_1of4")
    with pytest.raises(DesignError, match="no chip"):
        designs.design_config("dstc")
    with pytest.raises(DesignError, match="not modelled"):
        stream_cost(Stream(8, 8, 8, 8, 8, 8), Layer("", 8, 8, 8), parse_pattern("u0.5"), None, compresses_b=False)


def test_command_line(tcsim: Tcsim, tmp_path: Path) -> None:
    """Prune, compress, and what is refused; a picture."""
    path = {name: str(tmp_path / name) for name in ("w.npy", "p.npy", "c.npz", "b.svg")}
    np.save(path["w.npy"], np.random.default_rng(0).standard_normal((16, 64)).astype(np.float16))
    for pattern, stored in (("1:4", 256), ("16:2:8", 256), ("4:8/2:4", 256), ("u0.05", 51)):
        prune = ("prune", path["w.npy"], "--type", "f16", "--pattern", pattern, "--output", path["p.npy"])
        assert tcsim(*prune)[0] == 0
        compress = ("compress", path["p.npy"], "--type", "f16", "--pattern", pattern, "--output", path["c.npz"])
        assert tcsim(*compress)[0] == 0
        with np.load(path["c.npz"]) as arrays:
            assert arrays["values"].size == stored
    assert tcsim("compress", path["w.npy"], "--type", "f16", "--pattern", "1:4")[0] == 2
    assert tcsim("prune", path["w.npy"], "--type", "f16", "--pattern", "1;4")[0] == 2
    assert "vegeta" in tcsim("design", "vegetta")[2]
    assert tcsim("design", "h100_1of4", "--plot", path["b.svg"], "--format", "json")[0] == 0
    assert "<svg" in Path(path["b.svg"]).read_text()


@pytest.mark.parametrize("pattern", ["1:4].m16n8k64", "4:8].m16n8k32", "1:8].m16n8k128"])
def test_layout_verbs_take_hypothetical_instructions(tcsim: Tcsim, pattern: str) -> None:
    """Tables, pictures, questions both ways, and provenance, with and without metadata."""
    opcode = f"mma.sp[{pattern}.f32.f16.f16.f32"
    for metadata in ((), ("--metadata", "random")):
        assert tcsim("layout", opcode, "--format", "svg", *metadata)[0] == 0
        code, out, _ = tcsim("where", opcode, "--operand", "a", "--row", "5", "--col", "12", *metadata)
        assert code == 0
        assert "no chip has it" in out
        code, out, _ = tcsim("explain", opcode, "--d", "5,3", *metadata)
        assert (code, out.count("\n")) == (0, 4 + 16)
        code, out, _ = tcsim("what", opcode, "--lane", "20", "--register", "e", *metadata)
        assert code == 0
    assert tcsim("where", opcode, "--operand", "a", "--row", "5", "--col", "999")[0] == 1
