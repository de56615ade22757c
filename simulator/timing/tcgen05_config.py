"""The tables of a config that tell how fast `tcgen05` is: `[tcgen05]` and what belongs to it. Format:
docs/configs.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.timing.config import Reader

KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
GROUPS = (1, 2)
ROWS = {1: (32, 64, 128), 2: (128, 256)}  # M by cta_group; 32 with .ws alone. PTX ISA 9.0, 9.7.16.2.1
WS = (False, True)


@dataclass(frozen=True)
class Queue:
    """`[tcgen05]`: the unit of an SM that tcgen05.mma, cp, shift and commit queue at.

    Attributes:
        operand_bytes: bytes of A and B that the unit reads from shared memory in a cycle.
        issue: cycles between two of its instructions from one sub-core.
        queue: instructions that may wait; while as many do, no other can be issued.
    """

    operand_bytes: int
    issue: int
    queue: int


@dataclass(frozen=True)
class Kind:
    """`[[tcgen05.kind]]`: kinds that take the same time.

    Attributes:
        rate: multiply-adds a cycle of an SM when the instruction fills it (dense).
        latency: cycles that a kind adds to the latency of a shape, by cta_group: (of 1, of 2).
    """

    name: str
    kinds: tuple[str, ...]
    rate: int
    latency: tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """`[[tcgen05.shape]]`: how many rows fill the unit, and how long an instruction takes beyond its work.

    Attributes:
        ws: tcgen05.mma.ws.
        rows: M of the instruction, for the whole group of CTAs.
        share: part of the rate that the rows use: 2 for a half.
        interval: cycles between two instructions, at least.
        latency: cycles from issue until a commit has reached the mbarrier and a waiting warp can issue, beyond operands
            and products.
    """

    name: str
    cta_group: int
    ws: bool
    rows: tuple[int, ...]
    share: int
    interval: int
    latency: int


@dataclass(frozen=True)
class Sparse:
    """`[[tcgen05.sparse]]`: the rate of kinds with .sp, multiply-adds a cycle with K as named, so pruned ones count
    too."""

    name: str
    kinds: tuple[str, ...]
    rate: int


@dataclass(frozen=True)
class Copy:
    """`[tcgen05.copy]`: tcgen05.cp and shift: bytes written to Tensor Memory in a cycle; cycles until a commit has
    signalled, beyond that."""

    bytes: int
    latency: int


@dataclass(frozen=True)
class Tmem:
    """`[tcgen05.tmem]`: tcgen05.ld and st.

    Attributes:
        bytes: bytes in a cycle between a sub-core and its 32 lanes.
        load_latency: cycles from issue until the registers of a load of `bytes` or less can be read.
        store_latency: the same until such a store is complete for tcgen05.wait::st.
    """

    bytes: int
    load_latency: int
    store_latency: int


@dataclass(frozen=True)
class Mbarrier:
    """`[tcgen05.mbarrier]`: cycles from mbarrier.arrive until a warp that waits for the phase can issue."""

    latency: int


@dataclass(frozen=True)
class Tcgen05:
    """All of it."""

    queue: Queue
    kinds: tuple[Kind, ...]
    shapes: tuple[Shape, ...]
    sparse: tuple[Sparse, ...]
    copy: Copy
    tmem: Tmem
    mbarrier: Mbarrier

    def kind(self, name: str) -> Kind | None:
        return next((kind for kind in self.kinds if name in kind.kinds), None)

    def sparse_rate(self, name: str) -> Sparse | None:
        return next((rate for rate in self.sparse if name in rate.kinds), None)

    def shape(self, cta_group: int, m: int, ws: bool) -> Shape | None:
        """The first shape that fits."""
        return next((s for s in self.shapes if s.cta_group == cta_group and s.ws == ws and m in s.rows), None)


_PARTS: dict[str, type] = {"copy": Copy, "tmem": Tmem, "mbarrier": Mbarrier}
_QUEUE = ("operand_bytes", "issue", "queue")


def read_tcgen05(reader: Reader, table: Any) -> Tcgen05:
    """Checks the parsed `[tcgen05]` and notes the sources of its tables."""
    if not isinstance(table, dict):
        reader.fail("tcgen05", "not a table", "see docs/configs.md")
    reader.known("tcgen05.", table, (*_QUEUE, "source", "kind", "shape", "sparse", *_PARTS))
    reader.source("tcgen05", table)
    queue = Queue(**{key: reader.integer("tcgen05.", table, key) for key in _QUEUE})
    parts = {name: reader.part(f"tcgen05.{name}", kind, table.get(name)) for name, kind in _PARTS.items()}
    kinds = tuple(_kind(reader, where, row) for where, row in _rows(reader, table, "kind"))
    shapes = tuple(_shape(reader, where, row) for where, row in _rows(reader, table, "shape"))
    sparse = tuple(_sparse(reader, where, row) for where, row in _rows(reader, table, "sparse"))
    return Tcgen05(queue, kinds, shapes, sparse, **parts)


def _rows(reader: Reader, table: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    rows = table.get(name)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        reader.fail(f"tcgen05.{name}", f"at least one [[tcgen05.{name}]] table is needed", "see docs/configs.md")
    names: set[str] = set()
    found = []
    for number, row in enumerate(rows):
        where = f"tcgen05.{name}[{number}]."
        title = reader.string(where, row, "name")
        if title in names:
            reader.fail(f"{where}name", f"two named '{title}'", "a name of its own for each")
        names.add(title)
        reader.source(f"tcgen05 {name} {title}", row, where)
        found.append((where, row))
    return found


def _kind(reader: Reader, where: str, row: dict[str, Any]) -> Kind:
    reader.known(where, row, ("name", "kinds", "rate", "latency", "source"))
    kinds = reader.choices(where, row, "kinds", KINDS)
    added = reader.value(where, row, "latency")
    if (
        not isinstance(added, list)
        or len(added) != len(GROUPS)
        or any(type(n) is not int or abs(n) > 1000 for n in added)
    ):
        reader.fail(
            f"{where}latency",
            f"{added!r}",
            "[cycles for cta_group::1, cycles for cta_group::2], each from -1000 to 1000",
        )
    return Kind(row["name"], tuple(kinds), reader.integer(where, row, "rate"), (added[0], added[1]))


def _sparse(reader: Reader, where: str, row: dict[str, Any]) -> Sparse:
    reader.known(where, row, ("name", "kinds", "rate", "source"))
    return Sparse(row["name"], tuple(reader.choices(where, row, "kinds", KINDS)), reader.integer(where, row, "rate"))


def _shape(reader: Reader, where: str, row: dict[str, Any]) -> Shape:
    reader.known(where, row, ("name", "cta_group", "ws", "rows", "share", "interval", "latency", "source"))
    group = reader.integer(where, row, "cta_group")
    if group not in GROUPS:
        reader.fail(f"{where}cta_group", f"{group}", "1 or 2")
    ws = reader.boolean(where, {"ws": False} | row, "ws")
    rows = reader.choices(where, row, "rows", ROWS[group])
    share, interval, latency = (reader.integer(where, row, key) for key in ("share", "interval", "latency"))
    return Shape(row["name"], group, ws, tuple(rows), share, interval, latency)
