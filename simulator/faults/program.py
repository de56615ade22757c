"""A trace that is run again and again: its data loaded once, its dynamic instructions, and what is read before it is
written.

The dynamic instruction of a warp is the number of operations that it has executed before: barriers and what is behind a
false guard count, ends of loops do not. Warps are numbered over all CTAs: warp w of CTA c is c * (warps of a CTA) + w.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.forms.mma import MmaForm
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.tensor_memory.address import COLUMNS
from simulator.errors import ConfigError
from simulator.execute.cta_state import CtaState, Executor
from simulator.execute.dispatch import guarded_lanes
from simulator.execute.events import Event
from simulator.execute.operands import reader
from simulator.program.lowering import Code, Operation
from simulator.simulation.group import Group
from simulator.simulation.interpreter import Executed
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.registers import WARP_SIZE, Sort
from simulator.timing.config import Config

Orders = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max
_WORD_BYTES = 4


class Program(Session):
    """A trace with its data.

    Args:
        path: of the trace, or the name of one that comes with tcsim.
        config: name, path or value of a config, for its chip and its time; None: the chip is that of the trace's own
            target.
        target: the chip, in place of the config's.
        arithmetic: "chip" or "exact".

    Raises:
        TraceError, ConfigError, IsaError: a trace, its data, a config or a target that cannot be used.
    """

    def __init__(
        self, path: str | Path, config: str | Path | Config | None, target: str | None, arithmetic: str
    ) -> None:
        super().__init__(path, config, target=target, arithmetic=arithmetic, timed=False)
        self.name, self.trace, self.codes = path, self.program, self.program.codes
        self.initial  # noqa: B018 - data that cannot be loaded is an error here

    def machines(self) -> list[CtaState]:
        """The CTAs as they are before the run."""
        return self.copies()

    @property
    def state(self) -> CtaState:
        """The first CTA before the run; not to be changed."""
        return self.initial[0]

    @property
    def chip(self) -> Config:
        """The config; ConfigError without one."""
        if self.config is None:
            raise ConfigError(
                "campaign",
                "subject.config",
                "faults at a cycle need a chip's times",
                "the name of a config, such as h100_sxm",
            )
        return self.config

    # What is read

    @cached_property
    def register_uses(self) -> dict[int, Uses]:
        """By warp, when each 32-bit register is read and written whole, in dynamic instructions."""
        kept: dict[int, Uses] = {}
        for warp, sequence in self.sequences.items():
            code = self.code_of(warp)
            assert code is not None
            same = next(
                (
                    kept[code.cta * self.trace.warps + other]
                    for other in code.warps
                    if code.cta * self.trace.warps + other in kept
                ),
                None,
            )
            kept[warp] = same or self._registers(code, sequence)
        return kept

    def _registers(self, code: Code, sequence: NDArray[np.int32]) -> Uses:
        uses, words = Uses(len(sequence) + 1), self.trace.numbering.words
        for item in code.operations:
            at = np.flatnonzero(sequence == item.index)
            for register in (r for r in item.reads if r < words):
                uses.add(np.full(len(at), register), at, read=True)
            for register in (r for r in item.writes if r < words and item.instruction.guard is None):
                uses.add(np.full(len(at), register), at, read=False)
        for store in self.trace.stores:
            if store.register is not None and store.sort is Sort.WORD and store.cta in (None, code.cta):
                registers = np.arange(store.register, store.register + store.count)
                uses.add(registers, np.full(len(registers), len(sequence)), read=True)
        return uses.sorted()

    @cached_property
    def golden(self) -> Golden:
        """The run without faults."""
        watch = _Order(self)
        executed = self.run(watch)
        return Golden(executed, watch.starts, *watch.uses(), frozenset(watch.d_types))


@dataclass
class Golden:
    """The run without faults.

    Attributes:
        executed: its results.
        starts: by warp, how many operations of all warps had begun before each of its dynamic instructions (and before
            its end).
        shared, tmem: by CTA, when each 32-bit word of shared memory and each cell (lane * 512 + column) is read and
            written whole, in such numbers.
        d_types: names of the types of D of all matrix instructions.
    """

    executed: Executed
    starts: dict[int, Orders]
    shared: list[Uses]
    tmem: list[Uses]
    d_types: frozenset[str]


@dataclass
class Uses:
    """When words are read, and when they are written whole.

    Attributes:
        span: every time is below this.
        reads, writes: word * span + time, sorted once `sorted` was called.
        always: words that are read all the time.
    """

    span: int
    always: set[int] = field(default_factory=set)
    _parts: dict[bool, list[Orders]] = field(default_factory=lambda: {True: [], False: []})
    reads: Orders = field(default_factory=lambda: np.zeros(0, np.int64))
    writes: Orders = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, words: NDArray[Any], times: NDArray[Any], *, read: bool) -> None:
        self._parts[read].append(words.astype(np.int64) * self.span + times)

    def sorted(self) -> Uses:
        """Itself, ready for questions."""
        self.reads, self.writes = (
            np.unique(np.concatenate([np.zeros(0, np.int64), *self._parts[read]])) for read in (True, False)
        )
        self._parts = {True: [], False: []}
        return self

    @property
    def words(self) -> Orders:
        """Words that are ever read."""
        return np.union1d(np.unique(self.reads // self.span), np.array(sorted(self.always), np.int64))

    def _next(self, keys: Orders, word: int, time: int) -> int:
        at = int(np.searchsorted(keys, word * self.span + time))
        return int(keys[at]) % self.span if at < len(keys) and keys[at] < (word + 1) * self.span else _NEVER

    def read(self, word: int, first: int, last: int) -> bool:
        """Whether a change of a word is seen that is made before time `first`, and again before each time below
        `last`."""
        if word in self.always:
            return True
        if first >= self.span:
            return False
        seen = self._next(self.reads, word, first)
        if seen < last:
            return True
        final = max(first, min(last, self.span) - 1)
        seen = self._next(self.reads, word, final)
        return seen < _NEVER and seen <= self._next(self.writes, word, final)


class _Order(Observer):
    """Watches the run without faults: the order of operations, and who reads what when."""

    wants_accesses = True

    def __init__(self, program: Program) -> None:
        self.program, self.count = program, 0
        self._starts: dict[int, list[int]] = {warp: [] for warp in program.sequences}
        self.found: list[tuple[int, bool, str, int, Orders]] = []
        self.starts: dict[int, Orders] = {}
        self.d_types: set[str] = set()

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        for warp in group.warps:
            self._starts[group.code.cta * self.program.trace.warps + int(warp)].append(self.count)
        self.count += 1
        form, instruction = operation.instruction.form, operation.instruction
        if isinstance(form, MmaForm):
            self.d_types.add(form.d_type.name)
        elif isinstance(form, Tcgen05MmaForm):
            lanes = np.ones((len(group.warps), WARP_SIZE), np.bool_)
            lanes = lanes if instruction.guard is None else guarded_lanes(instruction.guard, machine, group.warps)
            words = reader(instruction["idesc"])(machine, group.warps)[:, 0][lanes]
            self.d_types |= {_d_type(form.kind, int(word)) for word in np.unique(words)}
        return None

    def finished(self, machines: list[CtaState]) -> None:
        self.starts = {warp: np.array([*starts, self.count], np.int64) for warp, starts in self._starts.items()}

    def accessed(self, event: Event) -> None:
        """Keeps what is read and written, as words."""
        time = max(self.count - 1, 0)
        for read, regions in ((True, event.reads), (False, event.writes)):
            for region in regions:
                self.found.extend(
                    (time, read, region.space, region.cta, words)
                    for words in _words(region.space, region.cells, read, event.kind)
                )

    def uses(self) -> tuple[list[Uses], list[Uses]]:
        """Of shared memory and of Tensor Memory, by CTA."""
        trace = self.program.trace
        found = {space: [Uses(self.count + 1) for _ in range(trace.ctas)] for space in ("shared", "tmem")}
        for time, read, space, cta, words in self.found:
            if space == "mbarrier":
                found["shared"][cta].always.update(words.tolist())
            else:
                found[space][cta].add(words, np.full(len(words), time), read=read)
        for store in trace.stores:
            for cta in range(trace.ctas) if store.cta is None else (store.cta,):
                if store.shared is not None:
                    words = np.arange(store.shared // _WORD_BYTES, (store.shared + store.count + 3) // _WORD_BYTES)
                    found["shared"][cta].add(words, np.full(len(words), self.count), read=True)
                if store.tmem is not None:
                    words = (
                        np.arange(128)[:, None] * COLUMNS + np.arange(store.tmem, store.tmem + store.count)
                    ).ravel()
                    found["tmem"][cta].add(words, np.full(len(words), self.count), read=True)
        return [uses.sorted() for uses in found["shared"]], [uses.sorted() for uses in found["tmem"]]


def _words(space: str, cells: Orders, read: bool, kind: str) -> Iterable[Orders]:
    """What a region of an event says of words: all that are read; of those that are written, the ones written whole.

    D of an mma counts as written in part, since a lane mask may keep lanes as they are.
    """
    if space == "mbarrier":
        places = cells.ravel() // _WORD_BYTES
        yield np.concatenate([places, places + 1])
    elif space == "shared":
        words, counts = np.unique(np.unique(cells) // _WORD_BYTES, return_counts=True)
        yield words if read else words[counts == _WORD_BYTES]
    elif read or not kind.startswith("tcgen05.mma"):
        yield np.unique(cells)


def _d_type(kind: str, word: int) -> str:
    """The type of D: of kinds f16 and f8f6f4 the instruction descriptor says it."""
    return (
        str(InstructionDescriptor.decode(word, kind).d_type)
        if kind in ("f16", "f8f6f4")
        else "s32"
        if kind == "i8"
        else "f32"
    )
