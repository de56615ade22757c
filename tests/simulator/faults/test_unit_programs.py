"""Faults of the tensor core unit in whole traces: against executors of the test's own, other texts, and through
files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.faults import outcomes
from simulator.faults.run import subject_of
from simulator.faults.table import MODELS, SITES, Faults, empty, read_blocks, read_head
from simulator.faults.targets.program import ProgramTarget
from simulator.program.lowering import Operation
from simulator.simulation.group import Group
from simulator.simulation.observer import Observer
from simulator.state.registers import Warps
from simulator.views.faults.replay import replay, text

Tcsim = Callable[..., tuple[int, str, str]]
OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
OTHER = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
TEXT = f"""
.trace 1
.target sm_90a
.warps 8
.load %r0, "x.npz", "a";
.load %r4, "x.npz", "b";
.load %r12, "x.npz", "e";
.warp 0-7 {{
    mov.u32 %r20, %warpid;
    setp.lt.u32 %p0, %r20, 6;
    .repeat 3 {{
        {OPCODE} {{%r16, %r17, %r18, %r19}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5, %r6, %r7}},
        {{%r16, %r17, %r18, %r19}}, %r12, SELECTOR;
    }}
    @%p0 {OTHER} {{%r16, %r17, %r18, %r19}}, {{%r0, %r1}}, {{%r4}}, {{%r16, %r17, %r18, %r19}};
}}
.store "d", %r16, 4;
"""
FIRST, GUARDED, COUNT = 2, 5, 6  # dynamic instructions: the matrix instructions are 2, 3, 4 and, guarded, the last
FORM = isa.mma_form(OPCODE)


def write(folder: Path, selector: int = 0, warps: int = 8) -> Path:
    """The trace; metadata of both selectors."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(3)
    found: dict[str, list[Any]] = {"a": [], "b": [], "e": []}
    for _ in range(warps):
        found["a"].append(FORM.a.scatter(half(rng, FORM.a.shape)))
        found["b"].append(FORM.b.scatter(half(rng, FORM.b.shape)))
        words = np.zeros(32, np.uint32)
        for of in range(2):
            codes = np.array(FORM.metadata.codes, np.uint32)
            words = FORM.metadata.scatter(rng.choice(codes, FORM.metadata.shape), of, words)
        found["e"].append(words[None])
    stacked: dict[str, Any] = {name: np.stack(arrays) for name, arrays in found.items()}
    np.savez(folder / "x.npz", **stacked)
    path = folder / "x.trace"
    content = TEXT.replace("SELECTOR", str(selector)).replace("0-7", f"0-{warps - 1}" if warps > 1 else "0")
    path.write_text(content.replace(".warps 8", f".warps {warps}"), encoding="utf-8")
    return path


def half(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float16).view(np.uint16).astype(np.uint32)


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> ProgramTarget:
    return ProgramTarget(write(tmp_path_factory.mktemp("unit")))


def fault(site: str, model: str, **columns: int) -> Faults:
    rows = empty(1)
    rows["site"], rows["model"] = SITES.index(site), MODELS.index(model)
    for name, value in columns.items():
        rows[name] = value
    return rows


class Emulation(Observer):
    """A healthy run whose matrix instructions give some warps another element of D.

    Args:
        warps: the warps that are on the struck sub-core.
        during: the dynamic instructions that are struck.
        position: the element of D.
        zero: the stored column of A that is zero for it, or None.
        ored: what is ored into its bits.
    """

    def __init__(self, warps: list[int], during: range, position: tuple[int, int], zero: int | None, ored: int) -> None:
        self.warps, self.during, self.position, self.zero, self.ored = warps, during, position, zero, ored

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        instruction = operation.instruction
        if not instruction.form.is_matrix or index not in self.during:
            return None
        form = isa.mma_form(instruction.form.opcode)
        lane, register, _ = (int(grid[self.position]) for grid in form.d.mapping.grid)

        def run(machine: CtaState, warps: Warps) -> Outcome:
            values, chosen = machine.registers.values, np.array([warp for warp in warps if warp in self.warps])
            before = values[chosen].copy()
            if self.zero is not None and self.zero < form.k_stored:
                a = form.a.gather(before[:, : form.a.registers])
                a[:, self.position[0], self.zero] = 0
                values[chosen, : form.a.registers] = form.a.scatter(a)
            executor(instruction)(machine, warps)
            wrong = values[chosen, 16 + register, lane] | np.uint32(self.ored)
            values[chosen] = before
            executor(instruction)(machine, chosen)
            executed = (values[chosen] != before).any(axis=(1, 2))
            values[chosen[executed], 16 + register, lane] = wrong[executed]
            return NOTHING

        others = [warp for warp in group.warps if warp not in self.warps]
        assert others
        return run


@pytest.mark.parametrize(
    ("model", "at", "until", "warps", "during"),
    [
        ("stuck", -1, -1, [1, 5], range(COUNT)),
        ("stuck", 3, 5, [1, 5], range(3, 5)),
        ("stuck", GUARDED, -1, [1, 5], range(GUARDED, COUNT)),
        ("set", FIRST, -1, [1], range(FIRST, FIRST + 1)),
    ],
)
def test_units_of_a_sub_core(
    subject: ProgramTarget, model: str, at: int, until: int, warps: list[int], during: range
) -> None:
    """A stuck bit strikes warps 1 and 5 as long as it lasts; what strikes once, one instruction of one warp."""
    found = []
    position, word, bits = (9, 5), 6, 0xF << 16
    time = {"case": 1, "at": at, "until": until, "lane": 8 * position[0] + position[1]}
    one = "stuck1" if model == "stuck" else "set"
    zero = "stuck0" if model == "stuck" else "set"
    for row, emulation in (
        (
            fault("output", one, mask=bits, value=bits, **time),
            Emulation(warps, during, position, None, bits),
        ),
        (fault("multiplier", zero, word=word, mask=(1 << 22) - 1, **time), Emulation(warps, during, position, word, 0)),
    ):
        run, injection = subject.alone(row[0])
        right = subject.session.run(emulation, machines=subject.session.copies()).arrays["d"]
        assert (np.asarray(run.arrays["d"]) == np.asarray(right)).all()
        golden = np.asarray(subject.stored.golden["d"])
        found.append(sorted(set(np.nonzero(np.asarray(right) != golden)[0].tolist())))
        assert injection.changed
    assert found[0] == warps


def test_an_instruction_whose_guard_is_false_is_not_struck(subject: ProgramTarget) -> None:
    """Warps 6 and 7 do not execute the last one."""
    row = fault("output", "flip", case=6, at=GUARDED, mask=1)
    (result,) = subject.run(row)
    assert (outcomes.OUTCOMES[result["outcome"]], outcomes.REASONS[result["reason"]]) == ("masked", "same")
    (result,) = subject.run(fault("output", "flip", case=5, at=GUARDED, mask=1))
    assert (outcomes.OUTCOMES[result["outcome"]], int(result["elements"])) == ("sdc", 1)


def test_a_position_that_a_smaller_step_does_not_have_is_not_struck(subject: ProgramTarget) -> None:
    """m16n8k8 uses eight of the sixteen multipliers."""
    row = {"case": 1, "at": GUARDED, "mask": 1 << 31, "lane": 3}
    results = subject.run(np.concatenate([fault("multiplier", "flip", word=word, **row) for word in (7, 8)]))
    assert results["elements"].tolist() == [1, 0]


def test_the_input_of_the_selector_is_another_text(tmp_path: Path) -> None:
    """A trace of one warp, whose text names the other selector."""
    right, wrong = (ProgramTarget(write(tmp_path / str(selector), selector, 1)) for selector in (0, 1))
    run, injection = right.alone(fault("selector_input", "stuck1", mask=1, at=-1)[0])
    assert injection.changed
    assert (np.asarray(run.arrays["d"]) == np.asarray(wrong.stored.golden["d"])).all()
    assert (np.asarray(run.arrays["d"]) != np.asarray(right.stored.golden["d"])).any()


def test_times_of_lists_are_those_of_matrix_instructions(subject: ProgramTarget, tmp_path: Path, tcsim: Tcsim) -> None:
    """Lasting faults once a sub-core, others at each instruction of each warp; lists run, and replay in words."""
    path, listed, results = (tmp_path / name for name in ("c.toml", "list.csv", "results.csv"))
    groups = [
        '[[faults]]\nsite = "mux"\nkind = "stuck1"\ncount = 40\n',
        '[[faults]]\nsite = "term"\nkind = "flip"\nat = "any"\ncount = 40\n',
        '[[faults]]\nsite = "adder"\nkind = "stuck0"\nat = 3\nuntil = 5\ncount = 20\n',
        '[[faults]]\nsite = "selector_input"\nkind = "flip"\n',
    ]
    path.write_text(f'[subject]\ntrace = "{subject.path}"\n' + "".join(groups))
    assert tcsim("faults", "list", path, "--output", listed) == (0, "", "")
    (rows,) = read_blocks(read_head(listed))
    assert set(rows["case"][rows["group"] == 0].tolist()) == {0, 1, 2, 3}
    assert set(rows["at"][rows["group"] == 1].tolist()) == {2, 3, 4, 5}
    assert set(rows["case"][rows["group"] == 1].tolist()) == set(range(8))
    assert len(rows) == 104
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    assert "selector_input flip" in tcsim("faults", "report", results)[1]
    target = subject_of(read_head(listed))
    said = [text(replay(target, rows[index : index + 1])) for index in (0, 40, 80, 100)]
    assert "sub-core of warp" in said[0]
    assert "multiplexers of code" in said[0]
    assert "for one instruction" in said[1]
    assert "adder" in said[2]
    assert "the selector's input, bit 0 inverted" in said[3]


def test_one_instruction_through_files(tmp_path: Path, tcsim: Tcsim) -> None:
    path, listed, results = (tmp_path / name for name in ("c.toml", "list.csv", "results.csv"))
    sites = ("multiplier", "term", "adder", "mux", "selector_input", "output")
    groups = "".join(
        f'[[faults]]\nsite = "{site}"\nkind = "stuck1"\ncount = {1 if "_" in site else 30}\n' for site in sites
    )
    path.write_text('[subject]\nopcode = "mma.sp.m16n8k16.f32.f16.f16.f32"\nselector = 2\n' + groups)
    assert tcsim("faults", "list", path, "--output", listed) == (0, "", "")
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    report = tcsim("faults", "report", results)[1]
    assert all(f"{site} stuck1" in report for site in sites)
    said = [tcsim("faults", "replay", listed, "--id", str(index))[1] for index in (0, 30, 60, 90, 120, 121)]
    for words, part in zip(said, ("multiplier", "term", "adder", "multiplexers of code", "input", "D["), strict=True):
        assert part in words
    assert "stored A[" in said[0]
    assert "whose code is" in said[3]
    path.write_text('[campaign]\narithmetic = "exact"\n' + path.read_text())
    code, _, error = tcsim("faults", "list", path, "--count")
    assert code == 2
    assert "'multiplier' is not a site of this subject" in error
