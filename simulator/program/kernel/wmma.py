"""Writes `wmma` instructions, of which the WMMA interface of CUDA C++ consists, as the loads, stores and `mma` that
they stand for. PTX ISA 9.0, 9.7.14.4.

PTX leaves open which thread holds which element of a matrix. Here they lie as `mma` wants them, as ptxas has it for
sm_80 and later: a matrix of 16 columns, or of 32 rows, is two of `mma`, one after the other; 8 x 32 is computed as its
transpose, 32 x 8. Where PTX demands more registers than that, they hold the same again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from isa.errors import IsaError

Line = tuple[str, str]  # opcode and operands
Fresh = Callable[[str], str]  # a new register of a sort: "r", "rd", "rs"
_ADDRESS = re.compile(r"\[\s*([\w$%@.]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_GROUPS = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|[^\s,{}\[\]]+")
KNOWN = "wmma of f16, bf16, tf32, s8, u8 and f64 whose C and D have one type"


@dataclass(frozen=True)
class _Type:
    """A type of A and B.

    Attributes:
        k: columns of A that one `mma` takes; of tf32 half of them, as ptxas 13.0 has it.
        each: elements of a register.
        a, b: (row, column) of the first element of each register of `mma`, to which a thread adds lane / 4 and `each`
            times lane % 4; of B row and column are exchanged.
    """

    k: int
    each: int
    a: tuple[tuple[int, int], ...]
    b: tuple[tuple[int, int], ...]


_HALF = _Type(16, 2, ((0, 0), (8, 0), (0, 8), (8, 8)), ((0, 0), (0, 8)))
_BYTE = _Type(16, 4, ((0, 0), (8, 0)), ((0, 0),))
_TYPES = {
    "f16": _HALF, "bf16": _HALF, "s8": _BYTE, "u8": _BYTE, "f64": _Type(4, 1, ((0, 0),), ((0, 0),)),
    "tf32": _Type(4, 1, ((0, 0), (8, 0), (0, 4), (8, 4)), ((0, 0), (0, 4))),
}  # fmt: skip
_WORDS = ((0, 0), (0, 1), (8, 0), (8, 1))  # of C of 32 bits: `mma` of 16 x 8
_RESULTS = {"f16": (2, ((0, 0), (8, 0))), "f32": (1, _WORDS), "s32": (1, _WORDS), "f64": (1, ((0, 0), (0, 1)))}
_SIZES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f32": 4, "s32": 4, "f64": 8}


def written(opcode: str, operands: str, fresh: Fresh) -> Iterator[Line]:
    """The instructions that a `wmma` stands for.

    Raises:
        IsaError: types or shapes that are not known here.
    """
    parts = opcode.split(".")
    shape = next((part for part in parts if re.fullmatch(r"m\d+n\d+k\d+", part)), "")
    groups = _GROUPS.findall(operands)
    if parts[1] == "mma":
        yield from _multiplied(parts, shape, [_elements(group) for group in groups])
        return
    loads, role, kind = parts[1] == "load", parts[2], parts[-1]
    matrix = _matrix(role, kind, shape, parts)
    held, address = groups[:2] if loads else groups[1::-1]
    stride = groups[2] if len(groups) > 2 else str(_width(shape, role, "row" in parts))
    space = next((f".{part}" for part in parts if part.split("::")[0] in ("global", "shared")), "")
    moves, registers = _Moves(space, kind, matrix, fresh), _elements(held)
    yield from moves.prepared(address, stride)
    for register, (row, column) in zip(registers, matrix.pieces, strict=False):
        yield from moves.moved(register, row, column, load=loads)
    if loads:
        for number in range(len(matrix.pieces), len(registers)):  # what PTX has more than `mma`
            yield "mov.b32", f"{registers[number]}, {registers[number % len(matrix.pieces)]}"


@dataclass(frozen=True)
class _Matrix:
    """How a matrix lies in registers and in memory.

    Attributes:
        pieces: (row, column) of the first element of each register, to which a thread adds lane / 4 and `threads` times
            lane % 4; of what is transposed, and of the second operand of `mma`, rows and columns are exchanged.
        each: elements of a register, columns that follow one another.
        contiguous: whether columns lie together in memory, and rows a stride apart.
    """

    pieces: list[tuple[int, int]]
    each: int
    threads: int
    contiguous: bool


def _matrix(role: str, kind: str, shape: str, parts: list[str]) -> _Matrix:
    """The matrix that a load or a store names."""
    rows, turned = "row" in parts, shape.startswith("m8n32")
    if kind not in (_RESULTS if role in "cd" else _TYPES):
        raise _unknown(".".join(parts))
    if role in "cd":
        each, pieces = _RESULTS[kind]
        tiles = 1 if shape == "m8n8k4" else 2
        down, right = (0, 8) if shape.startswith("m16") else (16, 0)
        found = [(r + tile * down, c + tile * right) for tile in range(tiles) for r, c in pieces]
        return _Matrix(found, each, 2, rows != turned)
    known = _TYPES[kind]
    if (role == "a") != turned:  # the first operand of `mma`
        tiles, step, pieces = (1 if shape.startswith(("m16", "m8n8")) else 2), 16, known.a
    else:
        tiles, step, pieces = (2 if shape.startswith("m16") else 1), 8, known.b
    found = [(r + tile * step, c) for tile in range(tiles) for r, c in pieces]
    return _Matrix(found, known.each, known.each, rows == (role == "a"))


def _width(shape: str, role: str, rows: bool) -> int:
    """The stride of a matrix that lies without gaps."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    height, width = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    return width if rows else height


class _Moves:
    """Loads and stores of the registers of a matrix.

    Attributes:
        places: by how many rows or columns further, the address of a thread's first element.
    """

    def __init__(self, space: str, kind: str, matrix: _Matrix, fresh: Fresh) -> None:
        self.space, self.size, self.matrix, self.fresh = space, _SIZES[kind], matrix, fresh
        self.places: dict[int, str] = {}

    def prepared(self, address: str, stride: str) -> Iterator[Line]:
        """Computes where the first element of a thread lies."""
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise IsaError(address, -1, f"the address '{address}'", "[register+offset] or [variable]")
        base, offset = match[1], match[2] or "0"
        narrow = re.fullmatch(r"%r\d+", base) or (self.space == ".shared" and not base.startswith("%"))
        self.sort, self.kind = ("r", "u32") if narrow else ("rd", "u64")
        lane, group, first, step = (self.fresh("r") for _ in range(4))
        self.step, begin = self.fresh(self.sort), self.fresh(self.sort)
        yield "mov.u32", f"{lane}, %laneid"
        yield "shr.u32", f"{group}, {lane}, 2"
        yield "and.b32", f"{lane}, {lane}, 3"
        yield "mul.lo.u32", f"{lane}, {lane}, {self.matrix.threads}"
        yield "mov.u32", f"{step}, {stride}"
        far, near = (group, lane) if self.matrix.contiguous else (lane, group)
        yield "mad.lo.u32", f"{first}, {far}, {step}, {near}"
        yield "mul.lo.u32", f"{first}, {first}, {self.size}"
        yield "mul.lo.u32", f"{step}, {step}, {self.size}"
        widen = "mov.u32" if narrow else "cvt.u64.u32"
        yield widen, f"{self.step}, {step}"
        yield widen, f"{begin}, {first}"
        moved = self.fresh(self.sort)
        yield f"mov.{self.kind}", f"{moved}, {base}"
        yield f"add.{self.kind}", f"{begin}, {begin}, {moved}"
        if offset != "0":
            yield f"add.{self.kind}", f"{begin}, {begin}, {offset}"
        self.places[0] = begin

    def _at(self, row: int, column: int) -> Iterator[Line | str]:
        """What computes the address of an element, and last the address itself."""
        far, near = (row, column) if self.matrix.contiguous else (column, row)
        if far not in self.places:
            self.places[far] = self.fresh(self.sort)
            yield f"mad.lo.{self.kind}", f"{self.places[far]}, {self.step}, {far}, {self.places[0]}"
        yield f"[{self.places[far]}+{near * self.size}]"

    def moved(self, register: str, row: int, column: int, *, load: bool) -> Iterator[Line]:
        """Loads or stores a register: as one word, where its elements lie together."""
        each, verb = self.matrix.each, "ld" if load else "st"
        bits = 8 * self.size
        if each == 1 or self.matrix.contiguous:
            yield from self._access(verb, f"b{bits * each}", register, row, column)
            return
        parts = [self.fresh("rs") for _ in range(each)]
        if not load:
            yield from _apart(register, parts)
        for number, part in enumerate(parts):
            yield from self._access(verb, f"{'u' if bits == 8 else 'b'}{bits}", part, row, column + number)
        if load:
            yield from _together(register, parts, self.fresh)

    def _access(self, verb: str, kind: str, register: str, row: int, column: int) -> Iterator[Line]:
        *lines, address = self._at(row, column)
        yield from (line for line in lines if isinstance(line, tuple))
        operands = f"{register}, {address}" if verb == "ld" else f"{address}, {register}"
        yield f"{verb}{self.space}.{kind}", operands


def _together(register: str, parts: list[str], fresh: Fresh) -> Iterator[Line]:
    """A register of the elements in these, of which each may be the half or the quarter of it."""
    if len(parts) == 2:
        yield "mov.b32", f"{register}, {{{', '.join(parts)}}}"
        return
    pairs = []
    for low, high in (parts[:2], parts[2:]):
        pairs.append(fresh("rs"))
        yield "shl.b16", f"{high}, {high}, 8"
        yield "or.b16", f"{pairs[-1]}, {low}, {high}"
    yield "mov.b32", f"{register}, {{{', '.join(pairs)}}}"


def _apart(register: str, parts: list[str]) -> Iterator[Line]:
    yield "mov.b32", f"{{{', '.join(parts)}}}, {register}"


def _multiplied(parts: list[str], shape: str, groups: list[list[str]]) -> Iterator[Line]:
    """The `mma` of a `wmma.mma`."""
    types = [part for part in parts[parts.index(shape) + 1 :] if part in (*_TYPES, *_RESULTS)]
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4 or types[1] not in _TYPES or types[0] not in _RESULTS or types[0] != types[3]:
        raise _unknown(".".join(parts))
    known, turned = _TYPES[types[1]], shape.startswith("m8n32")
    d, a, b, c = groups
    first, second = (b, a) if turned else (a, b)
    if turned:
        types[1], types[2] = types[2], types[1]
    size = len(_RESULTS[types[0]][1])
    size_of = "m8n8k4" if shape == "m8n8k4" else f"m16n8k{known.k}"
    limited = ".satfinite" if "satfinite" in parts else ""
    opcode = f"mma.sync.aligned.{size_of}.row.col{limited}.{'.'.join(types)}"
    for tile in range(1 if shape == "m8n8k4" else 2):
        rows = tile if not shape.startswith("m16") and shape != "m8n8k4" else 0
        columns = tile if shape.startswith("m16") else 0
        of_a = first[rows * len(known.a) : (rows + 1) * len(known.a)]
        of_b = second[columns * len(known.b) : (columns + 1) * len(known.b)]
        mine = slice(tile * size, (tile + 1) * size)
        turns = 2 if types[1] == "tf32" else 1
        for turn in range(turns):
            a_part, b_part = (
                part[turn * len(part) // turns : (turn + 1) * len(part) // turns] for part in (of_a, of_b)
            )
            sets = (d[mine], a_part, b_part, d[mine] if turn else c[mine])
            yield opcode, ", ".join("{" + ", ".join(each) + "}" for each in sets)


def _elements(group: str) -> list[str]:
    return [part.strip() for part in group.strip("{}").split(",") if part.strip()]


def _unknown(opcode: str) -> IsaError:
    return IsaError(opcode, -1, f"'{opcode}' is not executed", KNOWN)
