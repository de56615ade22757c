"""Where the elements of a matrix lie in shared memory: addresses, lines of 128 bytes and banks; and which 16-byte units
one `ldmatrix`, or one `wgmma` or `tcgen05.mma` through its matrix descriptor, reads.

    >>> from isa.shared_memory.tile import Tile
    >>> [phase.wavefronts for phase in ldmatrix(Tile(16, 64, "f16", swizzle="128B"), 4).phases]
    [1, 1, 1, 1]
    >>> [phase.wavefronts for phase in ldmatrix(PlainRows(16, 64, "f16", pitch=128), 4).phases]
    [8, 8, 8, 8]

Swizzled and canonical layouts come from `isa.shared_memory.tile.Tile`; rows one after another, from `PlainRows`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isa.errors import IsaError
from isa.fragments.registers import matrix_row_addresses
from isa.mapping import Integers
from isa.shared_memory.descriptor import PTX_STRIDES, SWIZZLES
from isa.shared_memory.hopper import of_hopper
from isa.shared_memory.layout import WINDOW, K
from isa.shared_memory.matrix_descriptor import MatrixDescriptor
from isa.shared_memory.packing import UNIT, packing
from isa.shared_memory.tile import Tile
from isa.types import ElementType
from simulator.state.shared import BANK_BYTES, LINE_BYTES, wavefronts
from simulator.tables import Table

GROUP = 8  # rows of an 8 x 8 matrix, and of a core matrix
STEPS = {
    "tcgen05": 32,
    "tcgen05.sp.b": 64,
    "wgmma": 32,
    "wgmma.sp.b": 64,
}  # bytes of K that an instruction reads of a row; of B of a sparse one
READS = ("ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", *STEPS)
PLAIN_SOURCE = "CUDA programming guide (32 banks of 4 bytes); wavefronts measured on an NVIDIA H100, November 2026"
SOURCE = f"{PTX_STRIDES} (strides), table 41 (swizzles); CUTLASS, make_umma_desc"


@dataclass(frozen=True)
class PlainRows:
    """A matrix whose rows (MN-major: whose k) follow one another, as a kernel without swizzle stores it.

    Attributes:
        rows: of A, or columns of B.
        columns: K as stored.
        element: type.
        pitch: bytes from one row to the next; a multiple of 16 that holds a row.
        major: "K" or "MN".
        start: first byte; a multiple of 16.
    """

    rows: int
    columns: int
    element: str | ElementType
    pitch: int
    major: str = K
    start: int = 0
    swizzle = "none"

    def __post_init__(self) -> None:
        along = packing(self.element).units(self.columns if self.major == K else self.rows) * UNIT
        if self.pitch % UNIT or self.pitch < along:
            reason = f"rows of {along} bytes {self.pitch} bytes apart"
            raise IsaError(str(self.pitch), -1, reason, f"a multiple of {UNIT}, {along} or more")
        if self.start % UNIT or self.start < 0 or self.start + self.size > WINDOW:
            reason = f"{self.size} bytes at byte {self.start}"
            raise IsaError(str(self.start), -1, reason, f"a multiple of {UNIT}, up to byte {WINDOW - 1}")

    @property
    def size(self) -> int:
        """Bytes from the first row to the end of the last one's pitch."""
        return self.pitch * (self.rows if self.major == K else self.columns)

    def bits(self) -> Integers:
        """Addresses in bits, int64 [row, k], of every element."""
        how = packing(self.element)
        line, inner = np.indices((self.rows, self.columns) if self.major == K else (self.columns, self.rows))
        bits: Integers = (self.start + line * self.pitch + inner // how.per_unit * UNIT) * 8
        bits = bits + inner % how.per_unit * how.bits
        return bits if self.major == K else bits.T


Stored = Tile | PlainRows


@dataclass(frozen=True)
class Phase:
    """What shared memory gives at once, if no two units are in one bank: 8 units of 16 bytes.

    Attributes:
        name: "matrix 0, lanes 0 to 7", or "rows 0 to 7, bytes 0 to 15 of K".
        units: for each of them (line, unit) of the matrix; a line is a row (K-major), or one k (MN-major).
        addresses: their byte addresses, in the same order.
        lanes: the lanes whose addresses they are; empty for a descriptor.
    """

    name: str
    units: tuple[tuple[int, int], ...]
    addresses: tuple[int, ...]
    lanes: tuple[int, ...] = ()

    @property
    def wavefronts(self) -> int:
        """Cycles that shared memory is busy with the 8 units: how many of them want one bank (measured on an H100 for
        loads of lanes)."""
        return int(wavefronts(np.array([self.addresses], np.int64), UNIT)[0])

    @property
    def banks(self) -> tuple[int, ...]:
        """The first of the four banks of each unit."""
        return tuple(address % LINE_BYTES // BANK_BYTES for address in self.addresses)


@dataclass(frozen=True)
class Read:
    """One instruction's read of a matrix.

    Attributes:
        name: of the instruction.
        phases: in the order in which the matrices are numbered.
        descriptor: the matrix descriptor through which it reads; None for `ldmatrix`.
    """

    name: str
    phases: tuple[Phase, ...]
    descriptor: MatrixDescriptor | None = None

    @property
    def summary(self) -> str:
        """One line: how many wavefronts the phases take, or what the descriptor says."""
        if self.descriptor is None:
            each = [phase.wavefronts for phase in self.phases]
            words = f"{sum(each)} wavefront{'s' * (sum(each) > 1)} ({' + '.join(map(str, each))})"
            worst = max(each)
            return f"{self.name}: {words}" + (
                f", conflicts of up to {worst} ways" if worst > 1 else ", no bank conflict"
            )
        d = self.descriptor
        parts = f"start {d.start_address}, leading offset {d.leading_offset}, stride offset {d.stride_offset}"
        more = f", base offset {d.base_offset}" * bool(d.base_offset)
        return f"{self.name}: descriptor 0x{d.encode():016x} ({parts}{more}, swizzle {d.swizzle})"


@dataclass(frozen=True)
class SharedLayout:
    """A matrix in shared memory, as tables and pictures show it.

    Attributes:
        tile: the matrix.
        read: what an instruction reads of it; None: nothing is asked.
        rows: the rows that are shown; None: all.
    """

    tile: Stored
    read: Read | None = None
    rows: range | None = None

    @property
    def title(self) -> str:
        """The matrix in words."""
        t = self.tile
        swizzle = "no swizzle (core matrices)" if t.swizzle == "none" else f"swizzle {t.swizzle}"
        if isinstance(t, PlainRows):
            swizzle = f"{'rows' if t.major == K else 'k'} {t.pitch} bytes apart"
        return f"{t.rows} x {t.columns} {t.element} in shared memory, {t.major}-major, {swizzle}, from byte {t.start}"

    @property
    def source(self) -> str:
        """Who says where the elements lie, and what reading them takes."""
        return PLAIN_SOURCE if isinstance(self.tile, PlainRows) else f"{SOURCE}; {PLAIN_SOURCE}"

    @cached_property
    def units(self) -> Integers:
        """The byte addresses int64 [line, unit] of all 16-byte units. A line is a row and its units run along K
        (K-major), or a line is one k and its units run along the rows (MN-major)."""
        return unit_addresses(self.tile)

    def unit_name(self, line: int, unit: int) -> tuple[str, str]:
        """What a unit holds: `("r3", "k8:15")`, or `("k3", "r8:15")`."""
        per = packing(self.tile.element).per_unit
        inner, outer = ("k", "r") if self.tile.major == K else ("r", "k")
        return f"{outer}{line}", f"{inner}{unit * per}:{unit * per + per - 1}"

    @cached_property
    def shown(self) -> Integers:
        """Whether each unit is shown, bool [line, unit]."""
        shown = np.ones(self.units.shape, np.bool_)
        if self.rows is not None:
            per = packing(self.tile.element).per_unit
            if self.tile.major == K:
                shown[: self.rows.start] = shown[self.rows.stop :] = False
            else:
                first = np.arange(self.units.shape[1]) * per
                shown[:, (first + per <= self.rows.start) | (first >= self.rows.stop)] = False
        return shown  # type: ignore[return-value] # bool, where Integers says a number

    def table(self) -> Table:
        """A row for each element: row, k, byte address, lowest bit in the byte, line of 128 bytes, first bank, and the
        matrix (of `ldmatrix`) or core matrix that reads it, -1 for none."""
        bits = self.tile.bits()
        row, column = (axis.ravel() for axis in np.indices(bits.shape))
        kept = np.ones(row.size, np.bool_) if self.rows is None else (row >= self.rows.start) & (row < self.rows.stop)
        address = bits.ravel() // 8
        phase = np.full(address.size, -1)
        if self.read is not None:
            of_unit = {start: i for i, each in enumerate(self.read.phases) for start in each.addresses}
            phase = np.array([of_unit.get(start, -1) for start in (address // UNIT * UNIT).tolist()])
        columns = (row, column, address, bits.ravel() % 8, address // LINE_BYTES, address % LINE_BYTES // BANK_BYTES)
        values = [each[kept].tolist() for each in (*columns, phase)]
        heads = ("row", "k", "address", "low_bit", "line", "bank", "read_by")
        return Table(heads, list(zip(*values, strict=True)))

    def text(self, *, markdown: bool = False) -> str:
        """The lines of 128 bytes with what their units hold, and what is read."""
        heads = ("byte", *(f"banks {4 * i} to {4 * i + 3}" for i in range(LINE_BYTES // UNIT)))
        rows = [
            (f"0x{start:04x}", *("-" if unit is None else self._words(*unit) for unit in line))
            for start, line in self.lines
        ]
        table = Table(heads, rows)
        about = self.notes
        if markdown:
            return "\n".join([f"### {self.title}", "", table.markdown(), *(f"- {line}" for line in about), ""])
        return "\n".join([self.title, "", table.text("<").rstrip("\n"), "", *about, ""])

    def _words(self, line: int, unit: int) -> str:
        return " ".join(self.unit_name(line, unit)) + self.mark(line, unit)

    @cached_property
    def _phase_of(self) -> dict[tuple[int, int], tuple[int, int]]:
        phases = self.read.phases if self.read is not None else ()
        return {
            place: (number, phase.lanes[i] if phase.lanes else -1)
            for number, phase in enumerate(phases)
            for i, place in enumerate(phase.units)
        }

    def mark(self, line: int, unit: int) -> str:
        """Who reads a unit: ` <T3`, ` <m1` of a descriptor; empty if nobody does."""
        found = self._phase_of.get((line, unit))
        return "" if found is None else f" <T{found[1]}" if found[1] >= 0 else f" <m{found[0]}"

    @cached_property
    def lines(self) -> list[tuple[int, list[tuple[int, int] | None]]]:
        """Every line of 128 bytes that holds a unit that is shown, as (first byte, what its 8 units hold); None where
        none of the matrix is."""
        held: dict[int, list[tuple[int, int] | None]] = {}
        for (line, unit), address in np.ndenumerate(self.units):
            if self.shown[line, unit]:
                start = int(address) // LINE_BYTES * LINE_BYTES
                places = held.setdefault(start, [None] * (LINE_BYTES // UNIT))
                places[int(address) % LINE_BYTES // UNIT] = line, unit
        return sorted(held.items())

    @property
    def notes(self) -> list[str]:
        """What is read, phase by phase, what the marks mean, and the source."""
        lines = ["r: row of A (M), column of B (N); k: columns of K as stored; a cell is 16 bytes: 4 banks of 4 bytes"]
        if self.read is not None:
            lines[0] += "; T: lane that names it" if self.read.descriptor is None else "; m: block of the read"
            lines.append(self.read.summary)
            for number, phase in enumerate(self.read.phases):
                banks = ", ".join(f"{bank}-{bank + 3}" for bank in phase.banks)
                taken = f"; {phase.wavefronts} wavefront{'s' * (phase.wavefronts > 1)}" if phase.lanes else ""
                lines.append(f"  {f'm{number}: ' * (not phase.lanes)}{phase.name}: banks {banks}{taken}")
        return [*lines, f"Source: {self.source}"]

    def json(self) -> str:
        """The matrix, what is read, and every element, as an object."""
        tile, read = self.tile, self.read
        content = {
            "title": self.title,
            "rows": tile.rows,
            "columns": tile.columns,
            "type": str(tile.element),
            "major": tile.major,
            "swizzle": tile.swizzle,
            "start": tile.start,
            "bytes": tile.size,
            "source": self.source,
            "read": None
            if read is None
            else {
                "by": read.name,
                "descriptor": None if read.descriptor is None else f"0x{read.descriptor.encode():016x}",
                "phases": [
                    {
                        "name": phase.name,
                        "addresses": phase.addresses,
                        "lanes": phase.lanes,
                        "wavefronts": phase.wavefronts if phase.lanes else None,
                    }
                    for phase in read.phases
                ],
            },
            "elements": json.loads(self.table().json()),
        }
        return json.dumps(content, indent=1) + "\n"


def unit_addresses(tile: Stored) -> Integers:
    """The byte addresses int64 [line, unit] of the tile's 16-byte units."""
    per = packing(tile.element).per_unit
    first = tile.bits()[:, ::per] if tile.major == K else tile.bits()[::per].T
    addresses: Integers = first // 8
    return addresses


def shared_read(tile: Stored, name: str, row: int = 0, k: int = 0) -> Read:
    """What the instruction of that name, one of `READS`, reads of the tile from this row and (stored) k on.

    Raises:
        IsaError: no such read, or one that does not lie in the tile.
    """
    if name not in READS:
        raise IsaError(name, -1, f"no read '{name}'", ", ".join(READS))
    if name in STEPS:
        if isinstance(tile, PlainRows):
            raise IsaError(name, -1, f"{name} reads canonical layouts, not rows a pitch apart", "--swizzle, no --pitch")
        return descriptor_read(tile, name, row, k)
    return ldmatrix(tile, int(name[-1]), row, k)


def ldmatrix(tile: Stored, matrices: int, row: int = 0, k: int = 0) -> Read:
    """What `ldmatrix` of so many 8 x 8 matrices reads (`.trans` where the tile is MN-major).

    The addresses that a kernel gives are its own affair; shown are those of fragments of `mma`: matrices follow one
    another over 16 lines of the tile first (8 where it has no more), then along its 16-byte units.
    """
    addresses = unit_addresses(tile)
    per = packing(tile.element).per_unit
    line, unit, step = (row, k // per, k % per) if tile.major == K else (k, row // per, row % per)
    if line % GROUP or step:
        legal = f"multiples of {GROUP} and {per}" if tile.major == K else f"multiples of {per} and {GROUP}"
        raise IsaError(f"{row},{k}", -1, f"a matrix of ldmatrix that begins at row {row}, k {k}", legal)
    high = 2 if line + 2 * GROUP <= addresses.shape[0] and matrices > 1 else 1
    places = matrix_row_addresses(matrices)
    phases = []
    for matrix in range(matrices):
        top, across = line + GROUP * (matrix % high), unit + matrix // high
        if top + GROUP > addresses.shape[0] or across >= addresses.shape[1]:
            reason = f"ldmatrix.x{matrices} from row {row}, k {k} leaves the tile of {tile.rows} x {tile.columns}"
            raise IsaError(f"{row},{k}", -1, reason, "a larger tile, fewer matrices, or an earlier row or k")
        (lanes,) = places.positions(matrix=matrix, row=np.arange(GROUP))
        units = tuple((top + i, across) for i in range(GROUP))
        name = f"matrix {matrix}, lanes {int(lanes[0])} to {int(lanes[-1])}"
        chosen = tuple(int(addresses[place]) for place in units)
        phases.append(Phase(name, units, chosen, tuple(map(int, lanes))))
    return Read(f"ldmatrix.x{matrices}" + ".trans" * (tile.major != K), tuple(phases))


def descriptor_read(tile: Tile, name: str, row: int = 0, k: int = 0) -> Read:
    """What one `tcgen05.mma` or `wgmma` reads of the tile through its descriptor: all rows from `row`, and 32 bytes of
    K of each, or 64 of B of a sparse instruction (of elements of fewer bits than a byte: of their packing)."""
    per = packing(tile.element).per_unit
    elements = STEPS[name] // UNIT * per
    if k + elements > tile.columns:
        reason = f"{name} reads {elements} of K from {k} on, the tile has {tile.columns}"
        raise IsaError(str(k), -1, reason, f"K of {k + elements} or more, or an earlier k")
    descriptor, addresses = _descriptor(tile.at(k=k, row=row), name), unit_addresses(tile)
    phases = []
    if tile.major == K:
        for top in range(row, tile.rows, GROUP):
            for unit in range(k // per, (k + elements) // per):
                units = tuple((top + i, unit) for i in range(GROUP))
                name_of = f"rows {top} to {top + GROUP - 1}, k {unit * per} to {unit * per + per - 1}"
                phases.append(Phase(name_of, units, tuple(int(addresses[place]) for place in units)))
    else:
        high = min(SWIZZLES[tile.swizzle].k_rows, elements)  # 8 k of 16 bytes, or 4 k of 32
        wide = GROUP // high
        for top in range(k, k + elements, high):
            for unit in range(row // per, tile.rows // per, wide):
                block = tuple((top + i, unit + j) for i in range(high) for j in range(wide))
                name_of = f"k {top} to {top + high - 1}, rows {unit * per} to {(unit + wide) * per - 1}"
                phases.append(Phase(name_of, block, tuple(int(addresses[place]) for place in block)))
    return Read(name, tuple(phases), descriptor)


def _descriptor(descriptor: MatrixDescriptor, name: str) -> MatrixDescriptor:
    """The descriptor of a tile as the instruction of that name takes it."""
    return of_hopper(descriptor) if name.startswith("wgmma") else descriptor
