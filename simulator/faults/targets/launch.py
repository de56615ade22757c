"""A fault target that is a captured launch: faults in its buffers before it begins, and in registers while it runs.

In a row of a list, `case` is the warp (over all CTAs); `word` is the number of a 32-bit register, as the kernel's text
has them, or of a 32-bit word of the buffers, one buffer after the other in the order of the capture; `lane` is the
lane. What counts as dynamic instruction `at` of a warp is each item that it executes but unconditional branches. Every
fault is a launch of its own, of the whole grid: CTAs may see each other's faults.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isa.errors import POLICIES
from isa.forms.mma import MmaForm, is_mma
from isa.ptx.instruction import Instruction
from isa.types import Bits
from simulator.applications.stored import Stored, differing
from simulator.execute.cta_state import Outcome
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import reader
from simulator.faults import outcomes
from simulator.faults.aim.executed import Static
from simulator.faults.detectors.codes import METADATA_RULES
from simulator.faults.outcomes import Observed, Results, Whole, judge, reason
from simulator.faults.spread import WORD_MODELS, Site
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.single_run import metadata_checks
from simulator.faults.targets.target import DIGEST_CHARACTERS, FaultTarget, refuse, word_site
from simulator.layout import FormLayout, form_layout
from simulator.program.capture import Capture, read_capture
from simulator.program.kernel import Item, Kernel, Operation, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup, batches
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.run import Code, Run
from simulator.state.registers import Lanes, Warps

_LONGER = 4  # times as many instructions as without a fault after which a launch counts as one that does not end
_ELEMENTS = {"float16": "f16", "float32": "f32", "int32": "s32"}
_REASONS = {"deadlock": "deadlock", "aligned-threads": "deadlock", "instruction-budget": "endless",
            "endless-wait": "endless", "misaligned-address": "misaligned-address",
            **dict.fromkeys(METADATA_RULES, "invalid-code")}  # fmt: skip
_Check = Callable[[LaunchState, Warps], bool]


def _unordered(instruction: Instruction, form: MmaForm) -> _Check:
    """A function that says whether the indices of a code that an `mma.sp` of some warps reads do not ascend."""
    read, selector = reader(instruction["e"]), instruction.selector

    def check(state: LaunchState, rows: Warps) -> bool:
        return bool(metadata_checks(form, read(state, rows)[:, 0], selector)[1].any())

    return check


class _Strikes:
    """Counts the dynamic instructions of the warps of a batch, applies a fault to a register where its time comes, and
    checks the order of the codes that are read.

    Attributes:
        counts: int64 [row].
        unordered: whether the indices of a code that an instruction read do not ascend.
    """

    def __init__(
        self, state: LaunchState, codes_read: dict[int, _Check], injection: FaultInjection | None, row: int
    ) -> None:
        self.counts = np.zeros(state.batch.rows, np.int64)
        self.state, self.codes_read, self.registers = state, codes_read, cast(Any, state.registers)
        self.injection, self.row, self.unordered = injection, row, False
        if injection is not None and injection.first == 0:
            self._apply(injection)

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        self.counts[rows] += 1
        injection, check = self.injection, self.codes_read.get(place)
        self.unordered |= check is not None and check(self.state, rows)
        if injection is not None and (rows == self.row).any():
            now = int(self.counts[self.row])
            if injection.first <= now < injection.last:
                self._apply(injection)

    def _apply(self, injection: FaultInjection) -> None:
        row = np.array([self.row], np.intp)
        values = self.registers.read(row, [injection.word]).copy()
        values[0, 0, injection.lane] = injection.applied(int(values[0, 0, injection.lane]))
        self.registers.write(row, [injection.word], values)


@dataclass(frozen=True)
class _Ended:
    """A launch that was made.

    Attributes:
        arrays: what its output buffers held at the end; empty if it stopped.
        reason: why it stopped, one of `outcomes.REASONS`; "" if it ended.
        said: the same in words.
        refused: whether a check in front of the core stopped it.
        counts: how many dynamic instructions each warp executed.
        undefined: how often each undefined case occurred.
        unordered: whether the indices of a code that was read do not ascend.
    """

    arrays: dict[str, NDArray[Any]]
    reason: str = ""
    said: str = ""
    refused: bool = False
    counts: NDArray[np.int64] | None = None
    undefined: Counter[str] = field(default_factory=Counter)
    unordered: bool = False


@dataclass(frozen=True)
class LaunchTarget(FaultTarget):
    """A captured launch to inject faults into.

    Attributes:
        path: the capture, NAME.json.
        target: the chip whose arithmetic is used; None: the capture's.
        policy: "hardware" (undefined codes select what an H100 was measured to select) or "raise" (they stop the run:
            detected).
        arithmetic: "chip" or "exact".
    """

    path: str | Path
    target: str | None = None
    policy: str = "hardware"
    arithmetic: str = "chip"
    when = True
    batch = 1

    def __post_init__(self) -> None:
        self.check_choices(POLICIES, " of a launch")

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: another process reads the capture itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def describe(self) -> dict[str, Any]:
        """The plain values from which the same target can be made, without the policy."""
        about = {"launch": str(self.path), "target": self.target, "arithmetic": self.arithmetic}
        return {key: value for key, value in about.items() if value is not None}

    @property
    def rule(self) -> str:
        """The arithmetic that the results rest on, with its evidence."""
        return "the chip's, see tcsim launch" if self.arithmetic == "chip" else "exact"

    # What there is

    @cached_property
    def capture(self) -> Capture:
        """The capture with its data. Raises the errors of `read_capture`."""
        capture = read_capture(self.path)
        if not capture.has_data:
            raise refuse("subject.launch", f"{self.path} has no data, so there is no result", "a capture with an npz")
        return capture

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel, each register of whose text has a number of its own."""
        module = Module(self.capture.ptx)
        return link(module.parsed, module.find(self.capture.entry), allocate=False)

    @cached_property
    def _code(self) -> Code:
        return prepared(self.kernel)

    @cached_property
    def _codes_read(self) -> dict[int, _Check]:
        """By place, the check of the codes that an instruction reads."""
        operations = [item for item in self.kernel.items if isinstance(item, Operation)]
        return {
            item.index: _unordered(item.instruction, form)
            for item in operations
            if is_mma(form := item.instruction.form) and form.sparse
        }

    def setup(self) -> Setup:
        """The launch before its first instruction, with buffers of its own."""
        capture, placed = self.capture, place(self.capture)
        options = Options(
            dynamic_shared=capture.dynamic_shared, cluster=capture.cluster, target=self.target or capture.target,
            arithmetic=self.arithmetic, undefined=self.policy, cooperative=capture.cooperative,
        )  # fmt: skip
        params = parameter_bytes(self.kernel, placed.values)
        return prepare(self.kernel, capture.grid, capture.block, placed.memory, params, options)

    @cached_property
    def layout(self) -> FormLayout:
        """The layout of the first matrix instruction."""
        for item in self.kernel.items:
            if isinstance(item, Operation) and item.instruction.form.is_matrix:
                return form_layout(item.instruction.form.opcode)
        raise refuse("subject.launch", f"{self.path} has no matrix instruction", "a kernel with mma or mma.sp")

    @cached_property
    def _offsets(self) -> dict[str, tuple[int, int]]:
        """For each buffer its first word among those of all buffers, and how many it has."""
        offsets, first = {}, 0
        for name, spec in self.capture.buffers.items():
            offsets[name] = first, spec.bytes // 4
            first += spec.bytes // 4
        return offsets

    def buffer_of(self, word: int) -> tuple[str, int]:
        """The buffer that a word of the site `global` lies in, and its number there."""
        name, (first, _) = next((n, o) for n, o in self._offsets.items() if o[0] <= word < o[0] + o[1])
        return name, word - first

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The sites where faults can be: words of buffers, and registers; those that an item reads are live."""
        words = sum(count for _, count in self._offsets.values())
        live = np.zeros((self.kernel.numbering.words, 32), np.uint32)
        for item in self.kernel.items:
            if isinstance(item, Operation):
                live[[n for n in self.kernel.numbering.numbers(item.needs) if n < len(live)]] = 0xFFFFFFFF
        return {"global": word_site("global", words), "registers": Site("registers", live, models=WORD_MODELS)}

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the warps of all CTAs."""
        return range(len(self._counts))

    @property
    def warps_of_a_cta(self) -> int:
        """How many warps a CTA has."""
        return self.setup().geometry.warps

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """How many dynamic instructions each warp executes, int64 [warp]."""
        assert self._golden.counts is not None
        return self._golden.counts

    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp executes."""
        return int(self._counts[warp])

    @cached_property
    def _golden(self) -> _Ended:
        golden = self._launched(None, 1 << 40)
        if golden.reason:
            raise refuse(
                "subject.launch", f"{self.path} does not end without a fault: {golden.reason}", "one that does"
            )
        return golden

    @cached_property
    def stored(self) -> Stored:
        """The comparison of buffers with those of the launch without faults."""
        types = {self.capture.buffers[name].type for name in self._golden.arrays}
        return Stored(self._golden.arrays, [_ELEMENTS.get(str(each), "") for each in types], False)

    @cached_property
    def digest(self) -> str:
        """A short SHA-256 of the kernel's text, its data, the chip, and the result without faults."""
        hasher = hashlib.sha256(f"{self.target or self.capture.target} {self.arithmetic}".encode())
        hasher.update("\n".join(item.text for item in self.kernel.items).encode())
        for name, array in sorted((*self.capture.before.items(), *self._golden.arrays.items())):
            hasher.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()[:DIGEST_CHARACTERS]

    @cached_property
    def _places(self) -> list[NDArray[np.int64]]:
        """By warp, the number of the item of each dynamic instruction, without faults."""
        setup, places = self.setup(), [list[int]() for _ in self.numbers]
        for ctas in batches(setup):
            state = setup.state(ctas)
            warps = (ctas[:, None] * state.warps + np.arange(state.warps)).ravel()

            def note(place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome, warps: Any = warps) -> None:
                for warp in warps[rows].tolist():
                    places[warp].append(place)

            Run(self._code, state, note=note).run()
        return [np.array(each, np.int64) for each in places]

    def executed(self, warp: int) -> NDArray[np.int64]:
        """Of each dynamic instruction of a warp the number of its item, int64 [n]."""
        return self._places[warp]

    def statics(self, warp: int) -> dict[int, Static]:
        """The instructions of the kernel by number of item."""
        items = (item for item in self.kernel.items if isinstance(item, Operation))
        return {item.index: Static(item.instruction, item.line, item.source) for item in items}

    def register_words(self, names: Iterable[str]) -> tuple[int, ...]:
        """The numbers of 32-bit registers; those of other registers are left out."""
        numbering = self.kernel.numbering
        return tuple(number for number in numbering.numbers(names) if number < numbering.words)

    def names_of(self, register: str) -> tuple[str, ...]:
        """What the PTX calls a register."""
        return self.kernel.names.get(register, (register,))

    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        """The words of a site before the first instruction, at arrays of places; registers hold zeros."""
        values = np.zeros(len(word), np.uint32)
        if site == "global":
            memory = self.setup().memory
            for row, number in enumerate(word.tolist()):
                name, index = self.buffer_of(number)
                values[row] = memory[name].data.view(np.uint32)[index]
        return values

    # Faults

    def check(self, faults: Faults) -> None:
        """As `FaultTarget.check`; a fault in a buffer is there before the launch."""
        super().check(faults)
        late = (faults["site"] == SITES.index("global")) & (faults["at"] >= 0)
        if late.any():
            row = faults[late][0]
            raise refuse("at", f"fault {int(row['id'])}: a buffer at {int(row['at'])}", "at = -1, the start")

    def run(self, faults: Faults) -> Results:
        """Launches with each fault, one after the other, and gives the outcome of each."""
        self.check(faults)
        results = outcomes.empty(faults["id"])
        results["class_changed"] = -1
        warps = self.setup().geometry.warps
        budget = _LONGER * int(self._counts.sum()) + 100_000
        for number, fault in enumerate(faults):
            injection = FaultInjection.of(fault, warps)
            if injection.site == "registers" and injection.first > self.instructions(injection.warp):
                results["reason"][number] = reason("unread")
                continue
            self._judge(results[number : number + 1], injection, self._launched(injection, budget))
        return results

    def alone(self, fault: Any) -> tuple[_Ended, FaultInjection]:
        """Launches with one fault, and returns what came of it."""
        injection = FaultInjection.of(fault, self.setup().geometry.warps)
        return self._launched(injection, _LONGER * int(self._counts.sum()) + 100_000), injection

    def item(self, warp: int, index: int) -> Item | None:
        """What a warp executes as dynamic instruction `index` without faults; None behind the last."""
        if index >= self.instructions(warp):
            return None
        setup, places = self.setup(), list[int]()
        cta, local = divmod(warp, setup.geometry.warps)
        ctas = next(part for part in batches(setup) if cta in part)
        row = int(np.flatnonzero(ctas == cta)[0]) * setup.geometry.warps + local

        def note(place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
            if (rows == row).any():
                places.append(place)

        Run(self._code, setup.state(ctas), note=note).run()
        return self.kernel.items[places[index]]

    def _launched(self, injection: FaultInjection | None, budget: int) -> _Ended:
        """Runs the launch, with a fault or without."""
        setup = self.setup()
        if injection is not None and injection.site == "global":
            name, index = self.buffer_of(injection.word)
            words = setup.memory[name].data.view(np.uint32)
            words[index] = injection.applied(int(words[index]))
            injection = None
        counts: list[NDArray[np.int64]] = []
        met, unordered = Counter[str](), False
        try:
            for ctas in batches(setup):
                state = setup.state(ctas)
                mine = injection is not None and injection.cta in ctas
                row = int(np.flatnonzero(ctas == injection.cta)[0]) * state.warps + injection.local if mine else -1  # type: ignore[union-attr] # mine
                strikes = _Strikes(state, self._codes_read, injection if mine else None, row)
                run = Run(self._code, state, budget, strikes)
                try:
                    run.run()
                finally:
                    met.update(state.met)
                    unordered |= strikes.unordered
                budget = run.budget
                counts.append(strikes.counts)
        except LaunchError as error:
            why, refused = _REASONS.get(error.rule, "illegal"), error.rule in METADATA_RULES
            return _Ended({}, why, str(error), refused, undefined=met, unordered=unordered)
        capture = self.capture
        arrays = {name: spec.array(setup.memory[name].data).copy() for name, spec in capture.outputs.items()}
        return _Ended(arrays, counts=np.concatenate(counts), undefined=met, unordered=unordered)

    def _judge(self, results: Results, injection: FaultInjection, ended: _Ended) -> None:
        """Fills in the outcome of a launch."""
        stored, right = self.stored, self.stored.golden_matrix
        got = stored.matrix(ended.arrays)[None] if ended.arrays else right[None]
        rows = differing(got, right)
        legality = ended.refused or any(ended.undefined[name] for name in METADATA_RULES)
        seen = {"legality": np.array([legality]), "ordered": np.array([ended.unordered])}
        stopped = np.array([reason(ended.reason)], np.uint8)
        refused = np.array([ended.refused])
        changed = np.array([injection.changed])
        observed = Observed(got[:, rows], seen, stopped, refused)
        golden = np.broadcast_to(right[rows], observed.got.shape)
        whole = Whole(rows, right)
        judge(results, _Changes(changed, np.ones_like(changed)), observed, golden, stored.element, self.policy, whole)
        corrupt = results["outcome"] == outcomes.SDC
        results["first_row"][corrupt] = rows[results["first_row"][corrupt]]


@dataclass(frozen=True)
class _Changes:
    """Whether faults changed anything, and whether something that is read was changed."""

    changed: NDArray[np.bool_]
    read: NDArray[np.bool_]
