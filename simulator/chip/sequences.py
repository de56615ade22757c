"""The table `[sequences]` of a config: what ptxas writes for matrix instructions that a chip does not have.

The table names a file in configs/sequences, which `measurements/sequences.py` makes: for each such instruction the
machine instructions as rows [kind, writes, reads], in the order in which they are issued. Values are numbers, operands
have names: a0, b1, c2, e, d3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from isa import MmaForm, mma_forms
from simulator.chip.tables import Cycles, Delay, Slots
from simulator.toml_tables import Between

KINDS = ("alu", "imad", "float", "shuffle", "call", "return")
Value = int | str


@dataclass(frozen=True)
class Row:
    """One machine instruction.

    Attributes:
        kind: one of `KINDS`, or "tensor".
        form: the form of a matrix instruction; else None.
        after_shuffle: whether it is a shuffle, or depends on the result of one.
        around_shuffle: the same, or whether a shuffle depends on its result.
    """

    kind: str
    writes: tuple[Value, ...]
    reads: tuple[Value, ...]
    form: MmaForm | None = None
    after_shuffle: bool = False
    around_shuffle: bool = False

    @property
    def has_no_c(self) -> bool:
        """Whether it is a matrix instruction whose C is the register RZ, so that it reads fewer values."""
        roles = self.form.roles if self.form is not None else ()
        return len(self.reads) < sum(role.count for role in roles if role.name in "abc")


@dataclass(frozen=True)
class Sequence:
    """The machine instructions that take the place of one instruction.

    Attributes:
        number: its number in the file.
        rows: its instructions, in the order in which they are issued.
    """

    number: int
    rows: tuple[Row, ...]

    @property
    def called(self) -> bool:
        """Whether it is a routine that is called, of which nothing moves past the call or the return."""
        return self.rows[0].kind == "call"

    @property
    def tensor(self) -> tuple[MmaForm, ...]:
        """The forms of the matrix instructions in it."""
        return tuple(row.form for row in self.rows if row.form is not None)


@dataclass(frozen=True)
class Sequences:
    """`[sequences]`.

    Attributes:
        file: the name of a file in configs/sequences.
        float_interval: cycles between two float additions on one sub-core.
        shuffle: cycles from a shuffle until an instruction that needs its result can issue.
        call: cycles from a call until the next instruction issues.
        returns: the same from a return; 0: as from a call.
        window: of how many of a warp's next instructions the compiler takes the one that can issue first.
        temporaries: registers that the compiler gives to operands and results of the matrix instructions of sequences
            that overlap.
    """

    file: str
    float_interval: Cycles
    shuffle: Cycles
    call: Cycles
    window: Slots
    temporaries: Annotated[int, Between(1, 255, "registers")]
    returns: Delay = 0
    known: Mapping[str, Sequence] = field(default_factory=dict, compare=False, repr=False, metadata={"toml": False})

    def find(self, form: MmaForm) -> Sequence | None:
        """The sequence that takes the place of a form; None if there is none."""
        return self.known.get(form.opcode)


@lru_cache(maxsize=8)
def read_sequences(path: Path) -> Mapping[str, Sequence]:
    """The sequences of a file by the opcode that each stands for.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a file of sequences.
    """
    try:
        data = json.loads(path.read_text())
        sequences = [Sequence(number, _rows(rows)) for number, rows in enumerate(data["sequences"])]
        return {opcode: sequences[number] for opcode, number in data["opcodes"].items()}
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"no file of sequences: {error!r}") from None


def _rows(rows: list[list[Any]]) -> tuple[Row, ...]:
    """The rows, each marked by whether it depends on a shuffle, or a shuffle depends on it."""
    read = [_row(row) for row in rows]
    from_shuffles: set[Value] = set()
    after = []
    for row in read:
        after.append(row.kind == "shuffle" or bool(from_shuffles & set(row.reads)))
        from_shuffles |= set(row.writes) if after[-1] else set()
    into_shuffles: set[Value] = set()
    marked: list[Row] = []
    for row, behind in zip(reversed(read), reversed(after), strict=True):
        before = row.kind == "shuffle" or bool(into_shuffles & set(row.writes))
        into_shuffles |= set(row.reads) if before else set()
        marked.append(replace(row, after_shuffle=behind, around_shuffle=before or behind))
    return tuple(reversed(marked))


def _row(row: list[Any]) -> Row:
    kind, writes, reads = row
    if kind in KINDS:
        return Row(kind, tuple(writes), tuple(reads))
    return Row("tensor", tuple(writes), tuple(reads), mma_forms()[kind])
