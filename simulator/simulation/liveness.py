"""When a program reads and writes each register and memory word, recorded by watching one run without faults.

Fault injection uses this to tell beforehand which faults no instruction can see. The time of a register is the number
of dynamic instructions of its warp; the time of shared and Tensor Memory counts the operations of all warps in the
order of execution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.forms.mma import is_mma
from isa.forms.tcgen05 import is_tcgen05_mma
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.execute.cta_state import CtaState, Executor
from simulator.execute.dispatch import guarded_lanes
from simulator.execute.events import Event
from simulator.execute.operands import reader
from simulator.program.lowering import Code, Operation
from simulator.simulation.group import Group
from simulator.simulation.interpreter import Executed
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.registers import WARP_SIZE

Orders = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max
_WORD_BYTES = 4


@dataclass
class Uses:
    """The times at which words are read, and those at which they are written whole.

    Attributes:
        span: every time is below this.
        always: words that count as read at every time.
    """

    span: int
    always: set[int] = field(default_factory=set)
    _parts: dict[bool, list[Orders]] = field(default_factory=lambda: {True: [], False: []})
    _touched: list[Orders] = field(default_factory=list)

    def add(self, words: Any, time: Any, *, read: bool) -> None:
        """Notes that these words are read (or written) at one time, or each word at a time of its own."""
        self._parts[read].append(np.asarray(words, np.int64) * self.span + time)

    def touch(self, words: Any, time: Any) -> None:
        """Notes that these words are accessed in another way: written in part."""
        self._touched.append(np.asarray(words, np.int64) * self.span + time)

    @cached_property
    def accesses(self) -> tuple[Orders, Orders]:
        """(words, times) of all accesses, each once, by word and time; after its first use nothing may be added."""
        keys = np.unique(np.concatenate([*self._keys.values(), *self._touched]))
        return keys // self.span, keys % self.span

    @cached_property
    def _keys(self) -> dict[bool, Orders]:
        """Reads (True) and writes (False) as sorted values of word * span + time; after its first use nothing may be
        added."""
        none = np.zeros(0, np.int64)
        return {read: np.unique(np.concatenate([none, *parts])) for read, parts in self._parts.items()}

    @cached_property
    def words(self) -> Orders:
        """Words that are ever read."""
        return np.union1d(np.unique(self._keys[True] // self.span), np.array(sorted(self.always), np.int64))

    def _next(self, words: Orders, times: Orders, *, read: bool) -> Orders:
        """The next time from `times` on at which each word is read (or written)."""
        keys = np.append(self._keys[read], _NEVER)
        found = keys[np.searchsorted(keys, words * self.span + times)]
        return np.where(found < (words + 1) * self.span, found - words * self.span, _NEVER)

    def read_first(self, words: Orders, time: int) -> NDArray[np.bool_]:
        """Whether each word is read from a time on, before it is written whole."""
        times = np.full(len(words), min(time, self.span - 1))
        seen = self._next(words, times, read=True)
        return (seen < _NEVER) & (seen <= self._next(words, times, read=False)) | np.isin(words, list(self.always))

    def read(self, words: Orders, first: Orders, last: Orders) -> NDArray[np.bool_]:
        """Whether any read sees a change of each word that is made before time `first`, and again before each time
        below `last`: bool [change]."""
        words, first, last = (np.asarray(values, np.int64) for values in (words, first, last))
        start = np.minimum(first, self.span - 1)
        soon = self._next(words, start, read=True) < last
        final = np.maximum(start, np.minimum(last, self.span) - 1)
        seen = self._next(words, final, read=True)
        later = (seen < _NEVER) & (seen <= self._next(words, final, read=False))
        return np.isin(words, list(self.always)) | (first < self.span) & (soon | later)


def register_uses(session: Session) -> dict[int, Uses]:
    """By warp (numbered over all CTAs), the times at which each register (`Numbering`) is read and written whole."""
    by_warp: dict[int, Uses] = {}
    for code in session.program.codes:
        first = code.cta * session.program.warps
        uses = _registers(session, code, session.sequences[first + code.warps[0]]) if code.warps else Uses(1)
        by_warp |= {first + warp: uses for warp in code.warps}
    return by_warp


def _registers(session: Session, code: Code, sequence: NDArray[np.int32]) -> Uses:
    uses, numbering = Uses(len(sequence) + 1), session.program.numbering
    for item in code.operations:
        times = np.flatnonzero(sequence == item.index)
        for register in item.reads:
            uses.add(register, times, read=True)
        for register in item.writes if item.instruction.guard is None else ():
            uses.add(register, times, read=False)
    for store in session.program.stores:
        if store.register is not None and store.cta in (None, code.cta):
            first = numbering.first(store.sort) + store.register
            uses.add(np.arange(first, first + store.count), len(sequence), read=True)
    return uses


class Golden(Observer):
    """A run without faults, watched: its results, and when each word was used.

    Attributes:
        warps: how many warps a CTA has.
        executed: the results of the run.
        starts: by warp, how many operations of all warps had begun before each of its dynamic instructions (and before
            its end).
        uses: by "shared" or "tmem", then by CTA: the times at which each 32-bit word (number = address / 4), or each
            cell of Tensor Memory (number = lane * 512 + column), is read and written whole.
        d_types: the names of all types that D has in a matrix instruction of the run.
    """

    wants_accesses: ClassVar[bool] = True

    def __init__(self, session: Session) -> None:
        self._ctas, self.warps, self._count = session.program.ctas, session.program.warps, 0
        self._starts: dict[int, list[int]] = {warp: [] for warp in session.sequences}
        self._accesses: list[tuple[int, bool | None, str, int, Orders]] = []
        self.starts: dict[int, Orders] = {}
        self.d_types: set[str] = set()
        self.executed: Executed = session.run(self)
        self.uses = self._uses(session)

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        """Counts the operation, and notes the type of D of a matrix instruction."""
        for warp in group.warps:
            self._starts[group.code.cta * self.warps + int(warp)].append(self._count)
        self._count += 1
        form, instruction = operation.instruction.form, operation.instruction
        if is_mma(form):
            self.d_types.add(form.d_type.name)
        elif is_tcgen05_mma(form):
            lanes = np.ones((len(group.warps), WARP_SIZE), np.bool_)
            lanes = lanes if instruction.guard is None else guarded_lanes(instruction.guard, machine, group.warps)
            words = reader(instruction["idesc"])(machine, group.warps)[:, 0][lanes]
            self.d_types |= {_d_type(form.kind, int(word)) for word in np.unique(words)}
        return None

    def finished(self, machines: list[CtaState]) -> None:
        self.starts = {warp: np.array([*starts, self._count], np.int64) for warp, starts in self._starts.items()}

    def accessed(self, event: Event) -> None:
        """Keeps what an event reads and writes, as numbers of words."""
        time = max(self._count - 1, 0)
        for read, regions in ((True, event.reads), (False, event.writes)):
            for space, cta, cells, *_ in regions:
                words = _words(space, cells, read, event.kind)
                self._accesses.extend((time, how, space, cta, numbers) for how, numbers in words)

    def _uses(self, session: Session) -> dict[str, list[Uses]]:
        uses = {space: [Uses(self._count + 1) for _ in range(self._ctas)] for space in ("shared", "tmem")}
        for time, read, space, cta, words in self._accesses:
            if space == "mbarrier":
                uses["shared"][cta].always.update(words.tolist())
                uses["shared"][cta].touch(words, time)
            elif read is None:
                uses[space][cta].touch(words, time)
            else:
                uses[space][cta].add(words, time, read=read)
        for store in session.program.stores:
            for cta in range(self._ctas) if store.cta is None else (store.cta,):
                if store.shared is not None:
                    words = np.arange(store.shared // _WORD_BYTES, (store.shared + store.count + 3) // _WORD_BYTES)
                    uses["shared"][cta].add(words, self._count, read=True)
                if store.tmem is not None:
                    columns = np.arange(store.tmem, store.tmem + store.count)
                    cells = (np.arange(TMEM_LANES)[:, None] * COLUMNS + columns).ravel()
                    uses["tmem"][cta].add(cells, self._count, read=True)
        self._accesses.clear()
        return uses


def _words(space: str, cells: Orders, read: bool, kind: str) -> Iterable[tuple[bool | None, Orders]]:
    """The words of a region of an event, and how they are accessed: read (True), written whole (False), or written in
    part (None).

    D of an mma counts as written in part, since a lane mask may keep lanes as they are.
    """
    if space == "mbarrier":
        word_numbers = cells.ravel() // _WORD_BYTES
        yield read, np.concatenate([word_numbers, word_numbers + 1])
    elif space == "shared":
        words, counts = np.unique(np.unique(cells) // _WORD_BYTES, return_counts=True)
        if read:
            yield True, words
        else:
            whole = counts == _WORD_BYTES
            yield False, words[whole]
            yield None, words[~whole]
    elif space == "tmem":
        yield (read if read or not kind.startswith("tcgen05.mma") else None), np.unique(cells)


def _d_type(kind: str, word: int) -> str:
    """The name of D's type; of kinds f16 and f8f6f4 the instruction descriptor `word` says it."""
    if kind in ("f16", "f8f6f4"):
        return str(InstructionDescriptor.decode(word, kind).d_type)
    return "s32" if kind == "i8" else "f32"
