"""A fault target that is a whole program: faults in its registers, in shared and Tensor Memory, and in the sparsity
selectors of its instructions.

In a row of a list, `case` is the warp (over all CTAs); `word` is the number of a 32-bit register, of a 32-bit word of
shared memory, or the column of Tensor Memory; `lane` is the lane. `simulator.faults.targets.injection` says what `at`
and `until` mean.

Faults that nothing can see are recognised without a run (`liveness`). Where warps run in lock step, many runs are made
together (`lockstep`); what diverges from the others is run alone (`single_run`). The results are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import POLICIES
from isa.forms.mma import is_mma
from isa.forms.record import Form
from isa.targets import Target
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from isa.types import Bits
from simulator.applications.stored import Stored, differing
from simulator.chip.config import Config
from simulator.faults import outcomes
from simulator.faults.aim.executed import Static
from simulator.faults.detectors.afterwards import look_at_words
from simulator.faults.detectors.metadata_sums import TraceSums
from simulator.faults.intervals import Accessed
from simulator.faults.outcomes import Observed, Results, Whole, judge, reason
from simulator.faults.spread import WORD_MODELS, Site
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.accessed import of_trace
from simulator.faults.targets.differences import Changes, Differences
from simulator.faults.targets.digests import trace_digest
from simulator.faults.targets.injection import FaultInjection, Injections, place_of, simple, words_of
from simulator.faults.targets.lockstep import COPIES, LockstepRuns
from simulator.faults.targets.made import MadeTrace
from simulator.faults.targets.register_sites import REGISTER_SITES, register_sites
from simulator.faults.targets.register_sites import words_of as words_of_registers
from simulator.faults.targets.running import RunningTarget
from simulator.faults.targets.single_run import STOPS, Run, SingleRun
from simulator.faults.targets.target import SELECTOR, refuse
from simulator.faults.targets.unread import all_unread
from simulator.faults.unit.sites import UNIT_SITES
from simulator.layout import FormLayout, form_layout
from simulator.program.data import Array
from simulator.simulation.footprints import Footprints
from simulator.simulation.liveness import Golden, Uses, register_uses
from simulator.simulation.lockstep import Copies, runs_in_lockstep
from simulator.simulation.session import Session

_COMPARED = 16  # results that are judged together
_ALONE = 32  # runs that are made one by one in a few seconds
_ALONE_SITES = ("registers16", "predicates")  # whose faults are never run many at a time


class _Ended(NamedTuple):
    """A run that was made: the number of its fault, what it stored, whether the fault changed anything, what the
    detectors saw, why the run stopped, and the bits of each word that changed first."""

    number: int
    arrays: dict[str, Array]
    changed: bool
    seen: dict[str, bool]
    reason: str = ""
    struck: tuple[int, ...] = ()


@dataclass(frozen=True)
class ProgramTarget(RunningTarget):
    """A trace to inject faults into.

    Attributes:
        path: the path of the trace, or the name of one that comes with tcsim.
        config: the config of a chip, for its arithmetic and for faults at a cycle; None: the chip of the trace's own
            target.
        target: the chip, in place of the config's.
        policy: "hardware" (undefined codes select what an H100 was measured to select) or "raise" (they stop the run:
            detected).
        arithmetic: "chip" or "exact".
        together: whether many runs are made at a time where they need not be alone; the results are the same.
        application: whether digits are classified, where the trace is one of traces/digits.
    """

    path: str | Path
    config: str | Config | None = None
    target: str | None = None
    policy: str = "hardware"
    arithmetic: str = "chip"
    together: bool = True
    application: bool = True
    batch = 6144

    def __post_init__(self) -> None:
        self.check_choices(POLICIES, " of a trace")

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: another process loads the trace itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def describe(self) -> dict[str, Any]:
        """The plain values from which the same target can be made, without the policy."""
        about = {"trace": str(self.path), "config": self.config, "target": self.target, "arithmetic": self.arithmetic}
        return {key: value for key, value in about.items() if value is not None}

    @property
    def most(self) -> int:
        """A few seconds' faults: many where runs are made together."""
        return 2 * self.batch if self._together else _ALONE

    def by_itself(self, faults: Faults) -> NDArray[np.bool_]:
        """Which faults are a run each."""
        alone = np.isin(faults["site"], [SITES.index(name) for name in _ALONE_SITES])
        return ~simple(faults) | alone | (not self._together)

    @property
    def rule(self) -> str:
        """The arithmetic that the results rest on, with its evidence."""
        return "the chip's, see tcsim run" if self.arithmetic == "chip" else "exact"

    # What there is

    @cached_property
    def session(self) -> Session:
        """The trace with its data. Raises the errors of `Session`."""
        how: dict[str, Any] = {"target": self.target, "arithmetic": self.arithmetic, "timed": False}
        session = Session(self.path, self.config, **how)
        session.initial  # noqa: B018 - data that cannot be loaded is an error here
        return session

    @cached_property
    def layout(self) -> FormLayout:
        """The layout of the first matrix instruction."""
        for operation, _ in self.session.program.operations:
            if operation.instruction.form.is_matrix:
                return form_layout(operation.instruction.form.opcode)
        legal = "a trace with mma, mma.sp or tcgen05.mma"
        raise refuse("subject.path", f"{self.path} has no matrix instruction", legal)

    @property
    def cases(self) -> int:
        """The number of warps in all CTAs."""
        return self.session.warps

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the warps that a fault can name."""
        return sorted(self.session.sequences)

    @property
    def warps_of_a_cta(self) -> int:
        """How many warps a CTA has."""
        return self.session.program.warps

    @cached_property
    def golden(self) -> Golden:
        """The run without faults."""
        return Golden(self.session)

    @cached_property
    def registers(self) -> dict[int, Uses]:
        """For each warp, when its registers are read and written."""
        return register_uses(self.session)

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The sites where faults can be; a word is live if any warp reads it at any time."""
        program, uses = self.session.program, self.golden.uses
        shapes = {"shared": (program.shared_bytes // 4, 1), "tmem": (COLUMNS, TMEM_LANES)}
        live = {name: np.zeros(shape, np.uint32) for name, shape in shapes.items()}
        numbering = program.numbering._replace(wide=0)  # of 64-bit registers a trace has no site
        read = {program.numbering.name(number) for use in self.registers.values() for number in use.words.tolist()}
        registers = register_sites(numbering, read)
        for use in uses["shared"]:
            live["shared"][use.words[use.words < len(live["shared"])]] = 0xFFFFFFFF
        for use in uses["tmem"]:
            live["tmem"][use.words % COLUMNS, use.words // COLUMNS] = 0xFFFFFFFF
        there = {name: len(array) > 0 and (name != "tmem" or array.any()) for name, array in live.items()}
        sites = {name: site for name, site in registers.items() if len(site.live)}
        sites |= {name: Site(name, live[name], models=WORD_MODELS) for name in shapes if there[name]}
        sparse = any(is_mma(form) and form.sparse for form in self.forms)
        sites |= {"selector": SELECTOR} if sparse else {}
        return sites | self.unit_sites

    @property
    def chip(self) -> Target:
        """The chip whose arithmetic is used."""
        return self.session.target

    @property
    def forms(self) -> Iterator[Form]:
        """The forms of the instructions of the text, in order."""
        return (operation.instruction.form for operation, _ in self.session.program.operations)

    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp executes."""
        return len(self.session.sequences.get(warp, ()))

    def executed(self, warp: int) -> NDArray[np.int64]:
        """Of each dynamic instruction of a warp the number of its item, int64 [n]."""
        return self.session.sequences[warp].astype(np.int64)

    def statics(self, warp: int) -> dict[int, Static]:
        """The instructions of a warp's block by number of item."""
        code = self.session.code_of(warp)
        return {} if code is None else {item.index: Static(item.instruction, item.line) for item in code.operations}

    def register_words(self, names: Iterable[str], site: str = "registers") -> tuple[int, ...]:
        """The words of a site of registers; those of other registers, and of 64-bit ones, are left out."""
        return words_of_registers(self.session.program.numbering._replace(wide=0), names, site)

    def first_register(self, site: str) -> int:
        """The number of the register that is word 0 of a site."""
        return self.session.program.numbering.first(REGISTER_SITES[site][0])

    def accessed(self, site: str, cta: int) -> Accessed:
        """When the words of shared or Tensor Memory of a CTA are accessed."""
        return of_trace(self.golden, site, [warp for warp in self.numbers if warp // self.warps_of_a_cta == cta])

    def names_of(self, register: str) -> tuple[str, ...]:
        """What the trace calls a register."""
        return (register,)

    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        """The words of a site before the first instruction, at arrays of places."""
        values = np.zeros(len(word), np.uint32)
        if site in UNIT_SITES:  # words that nothing stores
            return values
        for row, (warp, number, column) in enumerate(zip(case.tolist(), word.tolist(), lane.tolist(), strict=True)):
            cta, local = divmod(warp, self.session.program.warps)
            array = words_of(self.session.initial[cta], site)
            assert array is not None, "a selector is a word of an instruction"
            values[row] = array[place_of(site, local, number, column)]
        return values

    @cached_property
    def digest(self) -> str:
        """A short SHA-256 of the program's text, its data, the chip, and what is stored without faults."""
        return trace_digest(self.session, self.arithmetic, self.stored)

    @cached_property
    def stored(self) -> Stored:
        """The comparison of stored arrays with those of the run without faults."""
        return Stored(self.golden.executed.arrays, self.golden.d_types, self.application)

    @property
    def maker(self) -> MadeTrace:
        """What makes the stored results without faults."""
        return MadeTrace(self.session, self.stored)

    def summed(self, bits: int) -> TraceSums:
        """The checksums of metadata without faults."""
        return TraceSums(self.session, bits)

    # Time

    def at_cycles(self, faults: Faults) -> Faults:
        """Converts faults whose `at` and `until` are cycles into faults at the dynamic instructions of their warps.

        A fault at cycle c strikes before the first instruction that its warp issues in cycle c or later; one that lasts
        until cycle u is not applied before those that issue in cycle u or later. Behind a warp's last issue is the end,
        where only what is stored is left. Cycles are those of a run without faults; `at` and `until` below 0 stay as
        they are. ConfigError without a config.
        """
        timed = faults.copy()
        for warp in np.unique(faults["case"]).tolist():
            mine = faults["case"] == warp
            for name in ("at", "until"):
                cycles = faults[name][mine]
                timed[name][mine] = np.where(cycles < 0, cycles, self.session.instruction_at(warp, cycles))
        held = (timed["until"] >= 0) & (timed["until"] <= timed["at"])
        timed["until"][held] = timed["at"][held]
        return timed

    # Faults

    def injection(self, fault: Any) -> FaultInjection:
        """The injection that a row of a list describes, after checking it: ConfigError as `check`."""
        self.check(np.array([fault]))
        return FaultInjection.of(fault, self.session.program.warps, self)

    def unread(self, injection: FaultInjection) -> bool:
        """The same as `all_unread` for one fault."""
        return bool(self.all_unread(Injections.of(np.array([injection.row]), self.warps_of_a_cta))[0])

    def all_unread(self, injections: Injections) -> NDArray[np.bool_]:
        """Whether the run without faults reads nothing of what each fault changes, where registers, words and cells
        count as wholes: bool [fault]."""
        return all_unread(self, injections)

    def selects(self, warp: int, index: int) -> bool:
        """Whether dynamic instruction `index` of a warp is an `mma.sp`, which has a sparsity selector."""
        operation = self.session.operation(warp, index)
        return operation is not None and is_mma(form := operation.instruction.form) and form.sparse

    @cached_property
    def _together(self) -> bool:
        """Whether runs are made many at a time: as asked for, and possible for this program."""
        return self.together and runs_in_lockstep(self.session, self.golden.executed)

    @cached_property
    def _footprints(self) -> Footprints:
        return Footprints(self.session)

    @cached_property
    def _differences(self) -> Differences:
        return Differences(self.session.program, self.stored, self.look_at_product)

    def run(self, faults: Faults) -> Results:
        """Runs the program with each fault and gives the outcome of each."""
        self.check(faults)
        results = outcomes.empty(faults["id"])
        results["class_changed"], results["accuracy"] = self.stored.classified(self.stored.golden)
        injections = Injections.of(faults, self.session.program.warps, self.own)
        unread = self.all_unread(injections)
        results["reason"][unread] = reason("unread")
        alone = np.flatnonzero(~unread)
        if self._together:
            alone = self._in_lockstep(results, injections, alone)
        ended = self._alone(faults, alone)
        while some := list(islice(ended, _COMPARED)):
            self._judge(results, some)
        return results

    def _in_lockstep(self, results: Results, injections: Injections, numbers: Copies) -> Copies:
        """Makes the runs of these injections together and judges them; returns those that have to be run alone."""
        legal = (injections.site != SITES.index("selector")) | np.isin(
            injections.faults["value"], self.layout.selectors
        )
        legal &= ~self.by_itself(injections.faults)
        alone, left = [numbers[~legal[numbers]]], numbers[legal[numbers]]
        left = left[np.argsort(injections.first[left], kind="stable")]
        while len(left):
            batch = left[:COPIES]
            runs = LockstepRuns(self.session, self._footprints, self.registers, injections.some(batch))
            runs.run()
            right = runs.golden()
            assert all((right[name] == array).all() for name, array in self.stored.golden.items()), (
                "the run beside the copies is the golden one"
            )
            part, stopped = results[batch], np.zeros(len(batch), np.uint8)
            for copy, rule in runs.stopped.items():
                stopped[copy] = reason(STOPS.get(rule, "illegal"))
            seen = {"legality": runs.illegal, "ordered": runs.unordered, "race": runs.shared.races}
            seen |= {"alignment": np.zeros(len(batch), np.bool_), "checksum": runs.summed}
            changes = Changes(runs.changed, np.ones(len(batch), np.bool_))
            self._differences.judge(part, self._differences.find(runs), changes, seen, stopped, self.policy)
            done = ~runs.alone & ~runs.later
            look_at_words(part, slice(None), runs.injections.struck)
            results[batch[done]] = part[done]
            alone.append(batch[runs.alone])
            left = np.concatenate([batch[runs.later], left[COPIES:]])
            del runs  # before the next is made: a batch takes much memory
        return np.concatenate(alone)

    def _alone(self, faults: Faults, numbers: Copies) -> Iterator[_Ended]:
        """Makes the runs of these faults one by one."""
        races = self.golden.executed.undefined["shared-memory-race"]
        for number in numbers.tolist():
            injection = FaultInjection.of(faults[number], self.session.program.warps, self)
            run = SingleRun(self.session, injection, self.metadata_sums()).run()
            seen = {name: bool(getattr(run, name)) for name in ("legality", "ordered", "alignment", "checksum")}
            seen["race"] = run.met["shared-memory-race"] > races
            yield _Ended(number, run.arrays, injection.changed, seen, run.reason, tuple(injection.struck.values()))

    def _judge(self, results: Results, runs: list[_Ended]) -> None:
        """Fills in the outcomes of runs that ended."""
        stored, right = self.stored, self.stored.golden_matrix
        got = np.stack([stored.matrix(one.arrays) if one.arrays else right for one in runs])
        rows = differing(got, right)  # most rows are right in all
        names = "legality", "ordered", "alignment", "race", "checksum"
        seen = {name: np.array([one.seen.get(name, False) for one in runs]) for name in names}
        stopped = np.array([reason(one.reason) for one in runs], np.uint8)
        changed = np.array([one.changed for one in runs])
        numbers = np.array([one.number for one in runs])
        part, observed = results[numbers], Observed(got[:, rows], seen, stopped)
        golden = np.broadcast_to(right[rows], observed.got.shape)
        whole = Whole(rows, right)
        judge(part, Changes(changed, np.ones_like(changed)), observed, golden, stored.element, self.policy, whole)
        self.look_at_product(part, observed.got, golden, whole)
        look_at_words(part, slice(None), [one.struck for one in runs])
        corrupt = part["outcome"] == outcomes.SDC
        part["first_row"][corrupt] = rows[part["first_row"][corrupt]]
        if stored.classifier:
            for index in np.flatnonzero(corrupt).tolist():
                part[["class_changed", "accuracy"]][index] = stored.classified(runs[index].arrays)
        results[numbers] = part

    def alone(self, fault: Any) -> tuple[Run, FaultInjection]:
        """Runs one fault by itself, and returns what it did; `Run.arrays` has what the trace stores."""
        injection = self.injection(fault)
        return SingleRun(self.session, injection).run(), injection
