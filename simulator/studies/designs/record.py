"""Designs of sparse cores that nobody sells, as `configs/designs/*.toml` describe them. Format: docs/designs.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from isa.errors import IsaError
from isa.patterns import Pattern, parse_pattern
from simulator.resources import folder
from simulator.toml_tables import Between, Choice, Tables, read_toml

Count = Annotated[int, Between(1, 1 << 20)]
Part = Annotated[float, Between(0, 1, exclusive=True)]
Rate = Annotated[float, Between(0, 1e6, exclusive=True)]
DENSE = "dense"


@dataclass(frozen=True)
class Tiles:
    """`[tiles]`: a systolic engine behind tile registers, as VEGETA's.

    Attributes:
        load, first, second, drain: engine cycles of the stages of an instruction: weights in, first and second wave of
            operands, results out. Neighbouring instructions overlap stage by stage.
        baseline_drain: drain of the dense engine that it is compared with.
        forwards: results go to the next instruction on the same C as they come out, and do not wait for all of them.
        overlaps: the first instructions of a block of C do not wait for the end of the one before.
        registers: tile registers.
        rows: rows of A and of C in a tile; columns of C.
        depth: stored elements of A in a row of a tile.
        lines: cache lines of a tile register.
        metadata_lines: cache lines of A's metadata.
        lines_per_cycle: cache lines that the loads of a core cycle bring.
        core_cycles: cycles of the core in an engine cycle.
        classes: N of the N:4 patterns that a row may have, of unstructured matrices.
        group: columns of a row that have one N.
    """

    load: Count
    first: Count
    second: Count
    drain: Count
    baseline_drain: Count
    forwards: bool
    overlaps: bool
    registers: Count
    rows: Count
    depth: Count
    lines: Count
    metadata_lines: Count
    lines_per_cycle: Rate
    core_cycles: Rate
    classes: tuple[Count, ...]
    group: Count


@dataclass(frozen=True)
class Bitmap:
    """`[bitmap]`: outer products of condensed vectors, as DSTC's.

    Attributes:
        rows, columns: rows of A and columns of B of a warp's tile: one outer product of a column and a row.
        row_step, column_step: what one instruction takes of each; nothing is computed for steps that are left empty
            when the elements that are not zero are pushed together.
    """

    rows: Count
    columns: Count
    row_step: Count
    column_step: Count


@dataclass(frozen=True)
class Stream:
    """`[stream]`: a core with a stationary A, into which B streams from shared memory, as Sparseloop's STC.

    Attributes:
        macs: multiply-adds of a cycle.
        rows: rows of A that are held at a time; B is read again for each such pass.
        columns: columns of B for which A is held; it is read again for the next ones.
        depth: stored elements of A of a row that are held at a time: K is filled up to them.
        words_per_cycle: words that shared memory gives in a cycle; 0: as many as are asked for.
        word_bits: of an element.
        index_bits: metadata of a stored element of A in shared memory, by the name of the pattern: "2:4 = 2".
    """

    macs: Count
    rows: Count
    columns: Count
    depth: Count
    words_per_cycle: Annotated[float, Between(0, 1e6)]
    word_bits: Count
    index_bits: tuple[str, ...] = ("dense = 0",)


@dataclass(frozen=True)
class Chip:
    """`[chip]`: a chip that there is, with one matrix instruction more.

    Attributes:
        config: the chip's config.
        instruction: the hypothetical instruction, see `isa.sparsity.forms`.
        like: the instruction with as many stored columns, whose class it takes in all that is not said here.
        dense: the dense instruction that it is compared with.
        interval: cycles between two of them on one sub-core; 0: what the config's [operands] and multipliers need.
        latency: cycles until a dependent one; 0: as `like`, and as many more as its interval is longer.
    """

    config: str
    instruction: str
    like: str
    dense: str
    interval: Annotated[int, Between(0, 1 << 16, "cycles")] = 0
    latency: Annotated[int, Between(0, 1 << 16, "cycles")] = 0


@dataclass(frozen=True)
class Layer:
    """`[[layer]]`: D [m, n] = A [m, k] * B [k, n]."""

    name: str
    m: Count
    n: Count
    k: Count


@dataclass(frozen=True)
class Case:
    """`[[case]]`: a pattern of A, and what the design's authors say of it.

    Attributes:
        pattern: see `isa.patterns`, or "dense".
        b: what B has: "dense", or a density such as "u0.4".
        compresses_b: whether B is stored as a bitmap and values.
        layers: for which layers; all unless given.
        published: speed-up over the dense design; none where it is not known.
        source: of it.
    """

    pattern: str
    source: str
    b: str = DENSE
    compresses_b: bool = False
    layers: tuple[str, ...] = ()
    published: Rate | None = None


CORES: dict[str, type] = {"tiles": Tiles, "bitmap": Bitmap, "stream": Stream, "chip": Chip}
Core = Tiles | Bitmap | Stream | Chip


@dataclass(frozen=True)
class _Heading:
    """The lines at the top of the file.

    Attributes:
        fitted: which numbers were chosen with the answers in sight; "nothing" if none.
        lacks: what the model leaves out.
    """

    name: str
    title: str
    core: Annotated[str, Choice(tuple(CORES))]
    source: str
    fitted: str
    lacks: str


@dataclass(frozen=True)
class Design:
    """A design, its layers and cases.

    Attributes:
        core_source: where the numbers of the core come from.
        layer_source: where the layers come from.
    """

    path: str
    name: str
    title: str
    source: str
    fitted: str
    lacks: str
    core: Core
    core_source: str
    layers: tuple[Layer, ...]
    layer_source: str
    cases: tuple[Case, ...]

    @property
    def is_chip(self) -> bool:
        """Whether it is a chip that there is with one instruction more, of which `needs` tells, and not `evaluate`."""
        return isinstance(self.core, Chip)


def design_names() -> list[str]:
    """The designs that come with tcsim."""
    return sorted(path.stem for path in (folder("configs") / "designs").glob("*.toml"))


def load_design(name: str | Path) -> Design:
    """A design by its name or path.

    Raises:
        ConfigError: no such file, or one that is wrong; it names the key and what would be right.
    """
    tables = read_toml(name, folder("configs") / "designs", "design", "docs/designs.md")
    top = {key: value for key, value in tables.values.items() if not isinstance(value, dict | list)}
    heading = tables.record(_Heading, "", top)
    kinds = (heading.core, "layers", "layer", "case")
    tables.known("", tables.values, (*top, *kinds))
    core: Core = tables.record(CORES[heading.core], heading.core, also=("source",))
    layers = tuple(layer for _, layer in tables.records(Layer, "layer", optional=heading.core == "chip"))
    cases = tables.records(Case, "case", optional=heading.core == "chip")
    for place, case in cases:
        _check(tables, place, case, layers)
    return Design(
        tables.path, heading.name, heading.title, heading.source, heading.fitted, heading.lacks, core,
        _source(tables, heading.core), layers, _source(tables, "layers") if layers else "", tuple(c for _, c in cases),
    )  # fmt: skip


def _source(tables: Tables, where: str) -> str:
    """The source of a table, which says how its numbers are known."""
    source = tables.find(f"{where}.source")
    if not isinstance(source, str) or not source.startswith(("measured:", "published:", "assumed:")):
        tables.fail(f"{where}.source", repr(source), '"measured: ...", "published: ..." or "assumed: ..."')
    return source


def _check(tables: Tables, place: str, case: Case, layers: tuple[Layer, ...]) -> None:
    for key, text in (("pattern", case.pattern), ("b", case.b)):
        try:
            pattern_of(text)
        except IsaError as error:
            tables.fail(f"{place}.{key}", error.reason, error.legal)
    names = [layer.name for layer in layers]
    for name in case.layers:
        if name not in names:
            tables.fail(f"{place}.layers", f"no layer '{name}'", ", ".join(names))


def pattern_of(text: str) -> Pattern | None:
    """The pattern that a text names; None for "dense". IsaError for any other text."""
    return None if text == DENSE else parse_pattern(text)
