"""Faults in a whole trace: in registers, in shared and Tensor Memory, and in the sparsity selectors of its
instructions.

A row of a list: `case` is the warp (over all CTAs), `word` the number of a 32-bit register, of a 32-bit word of shared
memory, or the column of Tensor Memory, `lane` the lane; when, is said in `simulator.faults.injection`. A fault in a
selector (word and lane 0) concerns the `mma.sp` that the warp executes as its dynamic instruction `at`; below 0: all
that it executes.

What rows, columns and sizes of a result mean is said in `simulator.faults.stored`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isa.forms.mma import MmaForm
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.errors import ConfigError
from simulator.faults import outcomes
from simulator.faults.injection import FaultInjection, strike_of
from simulator.faults.lockstep import ROWS, LockstepRuns, can_batch
from simulator.faults.outcomes import DETECTED, MASKED, SDC, Results, flag, reason
from simulator.faults.program import Program
from simulator.faults.single_run import Run, SingleRun
from simulator.faults.space import Site
from simulator.faults.stored import Stored
from simulator.faults.table import Faults
from simulator.layout import FormLayout, form_layout
from simulator.program.data import Array
from simulator.timing.config import Config

POLICIES = ("hardware", "raise")
_ROW_BYTES = 128
_COMPARED = 16  # results that are compared together


@dataclass(frozen=True)
class TraceSubject:
    """A trace to inject faults into.

    Attributes:
        path: of the trace, or the name of one that comes with tcsim.
        config: of a chip, for its arithmetic and for faults at a cycle; None: the chip of the trace's own target.
        target: the chip, in place of the config's.
        policy: "hardware" (undefined codes select what an H100 was measured to select) or "raise" (they stop the run:
            detected).
        arithmetic: "chip" or "exact".
        together: whether runs that need not be alone are made many at a time; the results are the same.
        application: whether digits are classified, where the trace is one of traces/digits.
    """

    path: str | Path
    config: str | Config | None = None
    target: str | None = None
    policy: str = "hardware"
    arithmetic: str = "chip"
    together: bool = True
    application: bool = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConfigError("campaign", "subject.policy", f"policy '{self.policy}' of a trace", " or ".join(POLICIES))

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a process loads the trace itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # What there is

    @cached_property
    def program(self) -> Program:
        """The trace, loaded; errors as `Program`."""
        return Program(self.path, self.config, self.target, self.arithmetic)

    @cached_property
    def layout(self) -> FormLayout:
        """Of the first matrix instruction."""
        for code in self.program.codes:
            for op in code.operations:
                if isinstance(op.instruction.form, MmaForm | Tcgen05MmaForm):
                    return form_layout(op.instruction.form.opcode)
        raise ConfigError(
            "campaign",
            "subject.path",
            f"{self.path} has no matrix instruction",
            "a trace with mma, mma.sp or tcgen05.mma",
        )

    @property
    def cases(self) -> int:
        """Warps of all CTAs."""
        return self.program.warps

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Where faults can be; a word is live if any warp reads it at any time."""
        program = self.program
        trace, golden = program.trace, program.golden
        live = np.zeros((trace.numbering.words, 32), np.uint32)
        for uses in program.register_uses.values():
            live[uses.words] = 0xFFFFFFFF
        found = {"registers": Site("registers", live)} if trace.numbering.words else {}
        if trace.shared_bytes >= 4:
            shared = np.zeros((trace.shared_bytes // 4, 1), np.uint32)
            for uses in golden.shared:
                shared[uses.words[uses.words < len(shared)]] = 0xFFFFFFFF
            found["shared"] = Site("shared", shared)
        cells = [uses.words for uses in golden.tmem]
        if any(len(words) for words in cells):
            tmem = np.zeros((COLUMNS, TMEM_LANES), np.uint32)
            for words in cells:
                tmem[words % COLUMNS, words // COLUMNS] = 0xFFFFFFFF
            found["tmem"] = Site("tmem", tmem)
        forms = [op.instruction.form for code in program.codes for op in code.operations]
        if any(isinstance(form, MmaForm) and form.sparse for form in forms):
            found["selector"] = Site("selector", np.full((1, 1), 3, np.uint32))
        return found

    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp has."""
        return len(self.program.sequences.get(warp, ()))

    @cached_property
    def digest(self) -> str:
        """Of the program, its data, the chip and what is stored without faults: SHA-256 in short."""
        found = hashlib.sha256(f"{self.program.target} {self.arithmetic}".encode())
        for code in self.program.codes:
            found.update("".join(f"{code.warps} {item}" for item in code.items).encode())
        state = self.program.machines()
        for machine in state:
            for array in (
                *machine.registers.banks,
                machine.shared.data,
                *([machine.tmem.words] if "tmem" in vars(machine) else []),
            ):
                found.update(np.ascontiguousarray(array).tobytes())
        for name, array in sorted(self.golden.items()):
            found.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:16]

    @property
    def golden(self) -> dict[str, Array]:
        """What `.store` names, without faults."""
        return self.program.golden.executed.arrays

    # Time

    def at_cycles(self, faults: Faults) -> Faults:
        """The same faults, whose `at` and `until` are cycles, with the dynamic instructions of their warps in place of
        these.

        A fault at cycle c strikes before the first instruction that its warp issues in cycle c or later; one that lasts
        until cycle u is not applied before those that issue in cycle u or later. Behind a warp's last issue is the end,
        where only what is stored is left. Cycles are those of a run without faults; `at` and `until` below 0 stay as
        they are. ConfigError without a config.
        """
        found = faults.copy()
        for warp in np.unique(faults["case"]).tolist():
            mine = faults["case"] == warp
            for name in ("at", "until"):
                cycles = faults[name][mine]
                found[name][mine] = np.where(cycles < 0, cycles, self.program.instruction_at(warp, cycles))
        held = (found["until"] >= 0) & (found["until"] <= found["at"])
        found["until"][held] = found["at"][held]
        return found

    # Faults

    def strike(self, fault: Any) -> FaultInjection:
        """A row of a list, checked.

        Raises:
            ConfigError: a site, model, warp, word or lane that there is not.
        """
        found = strike_of(fault, self.program.trace.warps)
        site = self.sites.get(found.site)
        problem = ""
        if site is None:
            problem, legal = f"{self.path} has no {found.site}", ", ".join(self.sites)
        elif found.warp not in self.program.sequences:
            problem, legal = f"warp {found.warp} has no program", ", ".join(map(str, self.program.sequences))
        elif found.word >= len(site.live):
            problem, legal = f"word {found.word} of {found.site}", f"0 to {len(site.live) - 1}"
        elif found.lane >= site.live.shape[1]:
            problem, legal = f"lane {found.lane} of {found.site}", f"0 to {site.live.shape[1] - 1}"
        if problem:
            raise ConfigError("campaign", "faults", problem, legal)
        return found

    def unread(self, strike: FaultInjection) -> bool:
        """Whether the run without faults reads nothing of what a fault changes: registers, words and cells as
        wholes."""
        program, golden = self.program, self.program.golden
        if strike.first > self.instructions(strike.warp):
            return True
        if strike.site == "registers":
            return not program.register_uses[strike.warp].read(strike.word, strike.first, strike.last)
        if strike.site == "selector":
            last = min(strike.last, self.instructions(strike.warp))
            return not any(self._selects(strike.warp, index) for index in range(strike.first, last))
        uses = (golden.shared if strike.site == "shared" else golden.tmem)[strike.cta]
        starts = golden.starts[strike.warp]
        first = int(starts[strike.first])
        last = int(starts[strike.last]) if strike.last < len(starts) else strike.last
        word = strike.word if strike.site == "shared" else strike.lane * COLUMNS + strike.word
        return not uses.read(word, first, max(last, first + 1) if strike.lasting else first + 1)

    def _selects(self, warp: int, index: int) -> bool:
        operation = self.program.operation(warp, index)
        form = None if operation is None else operation.instruction.form
        return isinstance(form, MmaForm) and form.sparse

    @cached_property
    def stored(self) -> Stored:
        """What is done with stored arrays."""
        return Stored(self.program, self.application)

    @cached_property
    def _together(self) -> bool:
        return self.together and can_batch(self.program)

    def run(self, faults: Faults) -> Results:
        """The outcome of each fault, in the order given."""
        results = outcomes.empty(faults["id"])
        results["class_changed"] = 0 if self.stored.classifier else -1
        strikes = [self.strike(fault) for fault in faults]
        waiting = []
        for at, strike in enumerate(strikes):
            if self.unread(strike):
                results["reason"][at] = reason("unread")
            else:
                waiting.append(at)
        if self._together:
            waiting = self._run_together(results, strikes, waiting, faults)
        for at in waiting:
            strike = self.strike(faults[at])
            self._note(results, at, SingleRun(self.program, strike).run(), strike)
        return results

    def _run_together(
        self, results: Results, strikes: list[FaultInjection], waiting: list[int], faults: Faults
    ) -> list[int]:
        """Runs what it can in batches, those that strike about the same time together; what is left to be run alone."""
        left = []
        selectors = self.layout.selectors
        for at in waiting:
            if strikes[at].site == "selector" and strikes[at].value not in selectors:
                left.append(at)
        order = sorted(set(waiting) - set(left), key=lambda at: (strikes[at].first, at))
        for batch in self._batches(order, strikes):
            found = LockstepRuns(self.program, [strikes[at] for at in batch])
            found.run()
            assert all((found.arrays(-1)[name] == array).all() for name, array in self.golden.items()), (
                "the run beside the copies is the golden one"
            )
            left += [at for copy, at in enumerate(batch) if found.alone[copy]]
            rest = [(copy, at) for copy, at in enumerate(batch) if not found.alone[copy]]
            for copy, at in rest:
                seen = flag("legality") * found.illegal[copy] | flag("ordered") * found.unordered[copy]
                results["detectors"][at] = seen
                results["reason"][at] = reason("equal" if strikes[at].changed else "same")
            differing = [(copy, at) for copy, at in rest if not found.same[copy]]
            for first in range(0, len(differing), _COMPARED):
                some = differing[first : first + _COMPARED]
                arrays = [found.arrays(copy) for copy, _ in some]
                self.stored.compare(results, np.array([at for _, at in some]), arrays)
            for _, at in rest:
                self._judge(results, at)
        return left

    def _batches(self, order: list[int], strikes: list[FaultInjection]) -> Iterator[list[int]]:
        batch: list[int] = []
        rows = 0
        for at in order:
            needs = len(self.program.sequences) if strikes[at].site == "shared" else 1
            if rows + needs > ROWS and batch:
                yield batch
                batch, rows = [], 0
            batch.append(at)
            rows += needs
        if batch:
            yield batch

    def _note(self, results: Results, at: int, found: Run, strike: FaultInjection) -> None:
        """The result of a run that was made alone."""
        golden = self.program.golden.executed.undefined
        seen = {
            "legality": found.legality,
            "ordered": found.ordered,
            "alignment": found.alignment,
            "race": found.met["shared-memory-race"] > golden["shared-memory-race"],
        }
        results["detectors"][at] = sum(flag(name) for name, saw in seen.items() if saw)
        if found.outcome == SDC:
            self.stored.compare(results, np.array([at]), [found.arrays])
            if results["outcome"][at] == MASKED:
                results["reason"][at] = reason("equal" if strike.changed else "same")
        else:
            results["outcome"][at], results["reason"][at] = found.outcome, reason(found.reason)
            results["class_changed"][at] = -1
        self._judge(results, at)

    def _judge(self, results: Results, at: int) -> None:
        """The policy: a check of codes ends the run before its result."""
        if (
            self.policy == "raise"
            and results["detectors"][at] & flag("legality")
            and results["outcome"][at] in (MASKED, SDC)
        ):
            blank = outcomes.empty(results["id"][at : at + 1])
            blank["outcome"], blank["reason"], blank["detectors"] = (
                DETECTED,
                reason("invalid-code"),
                results["detectors"][at],
            )
            results[at : at + 1] = blank

    # One fault

    def replay(self, fault: Any) -> dict[str, Any]:
        """One fault in words: what it changes, when, who reads it, and the results before and after."""
        from simulator.faults.trace_replay import replay  # which needs this class

        return replay(self, fault)

    def accuracy(self, arrays: dict[str, Array] | None = None) -> float:
        """The share of images that the network recognises, from what a run stored (None: the one without faults).

        ConfigError if the trace is not one of traces/digits.
        """
        return self.stored.accuracy(arrays)

    def alone(self, fault: Any) -> tuple[Run, FaultInjection]:
        """One fault run by itself, and what it did; `Run.arrays` has what the trace stores."""
        strike = self.strike(fault)
        return SingleRun(self.program, strike).run(), strike
