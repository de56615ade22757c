"""Reads sparsity metadata as it stands in registers or in cells of Tensor Memory, and computes what it selects: which
stored element of A is which column of the logical matrix.

A text says what metadata there is: `random` or `random:SEED` (codes that are defined), a word in hexadecimal that
stands in every lane or cell, as many words as there are lanes with commas between, or a file: .npy or .npz (one array,
or `e`), or words in hexadecimal with white space between.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, Sparsity, stored_columns
from isa.fragments.metadata import spliced
from isa.mapping import Integers
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.metadata import PAIR
from isa.types import Bits
from isa.undefined import RULES, metadata_findings
from simulator.floating_point import guarded
from simulator.inputs import ArrayFile, InputError, read_text
from simulator.layout.catalog import holds_metadata, on_h100
from simulator.layout.form import FormLayout

HELP = (
    "random, random:SEED, a word in hexadecimal (the same in every lane), words with commas between (one "
    "a lane), or a file of words"
)
_HEX = re.compile(r"(0[xX])?[0-9a-fA-F]{1,8}")


@dataclass(frozen=True)
class Selection:
    """Metadata, and which columns of the logical matrix it selects.

    Attributes:
        words: uint32 [32 lanes, or 128 of a warpgroup], or [128 lanes, 2 columns] of Tensor Memory.
        codes: uint32 [row, chunk], of the first copy.
        sparsity: what a code means.
        columns: int64 [row, stored column]: its logical column, as a plain multiplexer picks it; see
            `isa.stored_columns`.
        joined: bool [row, chunk]: 1:2 codes that join 16-bit halves of both elements; their `columns` mean nothing.
        findings: rule -> bool [row, chunk]: what is not defined.
        source: where what undefined codes select comes from.
    """

    words: Bits
    codes: Bits
    sparsity: Sparsity
    columns: Integers
    joined: NDArray[np.bool_]
    findings: dict[str, NDArray[np.bool_]]
    source: str

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """Whether each code is defined, [row, chunk]."""
        broken: NDArray[np.bool_] = np.logical_or.reduce(list(self.findings.values()))
        return ~broken

    @cached_property
    def stored(self) -> list[list[list[int]]]:
        """For each [row][logical column] the list of the stored columns that hold it: empty if it is pruned, and two
        columns where a code has equal indices."""
        rows, count = self.columns.shape
        holders: list[list[list[int]]] = [
            [[] for _ in range(self.codes.shape[1] * self.sparsity.chunk)] for _ in range(rows)
        ]
        for row in range(rows):
            for column in range(count):
                if not self.joined[row, column // self.sparsity.stored]:
                    holders[row][int(self.columns[row, column])].append(column)
        return holders

    def problem(self, row: int, chunk: int) -> str:
        """Which rule the code of a chunk breaks, in words; empty if none."""
        for name, breaks in self.findings.items():
            if breaks[row, chunk]:
                return f"{name}: {RULES[name].rule}" if name in RULES else name
        return ""

    @property
    def report(self) -> str:
        """One line: how many codes are not defined, and where the first is; empty if all are."""
        broken = ~self.legal
        if not broken.any():
            return ""
        row, chunk = map(int, np.argwhere(broken)[0])
        count = int(broken.sum())
        codes = (
            f"{count} metadata code{'s are' if count > 1 else ' is'} not defined; row {row}, chunk "
            f"{chunk}: {int(self.codes[row, chunk]):#0{self.sparsity.code_bits + 2}b}"
        )
        return f"{codes} ({self.problem(row, chunk)}); shown is {self.source}"


def halves(code: int) -> tuple[int, int]:
    """Of a 1:2 code: the 16-bit halves of the chunk's two elements that become the operand's low and high half; 2 * i +
    1 is the high one of i."""
    return code & 3, code >> 2


def select(layout: FormLayout, words: Bits) -> Selection:
    """What these words of metadata select in a sparse form; raises IsaError for a dense one or another shape."""
    sparsity = _sparsity(layout)
    words = np.asarray(words, np.uint32)
    shape = _shape(layout)
    if words.shape != shape:
        raise IsaError("", -1, f"metadata of shape {words.shape}", f"uint32 {list(shape)}")
    if layout.metadata is not None:
        codes = layout.metadata.gather(words, layout.choice.selector, layout.choice.base_lane)
        findings = {name: hit for name, hit in layout.metadata.findings(codes).items() if name == "undefined-metadata"}
    else:
        assert holds_metadata(layout.form)
        codes = layout.form.metadata.gather(words, layout.choice.selector)
        findings = metadata_findings(layout.form, codes)
    measured = holds_metadata(layout.form) and on_h100(layout.form)
    source = (
        "what an H100 was measured to select"
        if measured
        else "what a plain multiplexer selects (assumed: no chip with this form was measured)"
    )
    return Selection(
        words, codes, sparsity, stored_columns(codes, sparsity), spliced(codes, sparsity), findings, source
    )


def read_metadata(layout: FormLayout, text: str) -> Selection:
    """The metadata that a text describes (see above).

    Raises:
        IsaError: a dense form, a text that describes no metadata, or a file that cannot be read or does not hold so
            many words.
    """
    _sparsity(layout)
    name, _, seed = text.partition(":")
    if name == "random" and (seed.isdecimal() or ":" not in text):
        return select(layout, random_words(layout, int(seed or 0)))
    parts = text.split(",")
    if all(_HEX.fullmatch(part.strip()) for part in parts):
        return select(layout, _filled(layout, [int(part, 16) for part in parts], f"'{text}'"))
    return select(layout, _from_file(layout, Path(text)))


@guarded
def random_words(layout: FormLayout, seed: int = 0) -> Bits:
    """Random words whose codes are all defined; the codes ascend where the form also takes others. Bits that are not
    read are random, too."""
    generator = np.random.default_rng(seed)
    words = generator.integers(0, 1 << 32, _shape(layout), dtype=np.uint32)
    shape = layout.operands["e"].shape[:2]
    codes = generator.choice(np.array(_sparsity(layout).ordered, np.uint32), shape)
    if layout.metadata is not None:
        return layout.metadata.scatter(codes, layout.choice.selector, layout.choice.base_lane, words)
    assert holds_metadata(layout.form)
    return layout.form.metadata.scatter(codes, layout.choice.selector, words)


def _sparsity(layout: FormLayout) -> Sparsity:
    if layout.sparsity is None:
        raise IsaError(
            layout.opcode,
            -1,
            f"'{layout.opcode}' has no metadata",
            "an mma.sp, wgmma.mma_async.sp or tcgen05.mma.sp form",
        )
    return layout.sparsity


def _shape(layout: FormLayout) -> tuple[int, ...]:
    return (TMEM_LANES, PAIR) if layout.metadata is not None else (layout.operands["e"].lanes,)


def _filled(layout: FormLayout, words: list[int], source: str) -> Bits:
    shape = _shape(layout)
    count = int(np.prod(shape))
    if len(words) not in (1, count) or max(words) >> 32:
        raise IsaError(source, -1, f"{source} holds {len(words)} words", f"1 word for all, or {count}, of 32 bits each")
    return np.resize(np.array(words, np.uint32), shape)


def _from_file(layout: FormLayout, path: Path) -> Bits:
    """Reads the words of a file; raises IsaError if it holds none, or another number of them."""
    shape = _shape(layout)
    try:
        if path.suffix in (".npy", ".npz"):
            return _from_array(path, shape)
        parts = read_text(path, HELP).replace(",", " ").split()
    except InputError as error:
        missing = "No such file" in error.reason
        said = f"'{path}' is neither metadata nor a file" if missing else f"{path}: {error.reason}"
        raise IsaError(str(path), -1, said, error.legal) from None
    wrong = next((part for part in parts if not _HEX.fullmatch(part)), None)
    if wrong is not None or not parts:
        raise IsaError(
            str(path),
            -1,
            f"{path}: {f'{wrong!r} is no word in hexadecimal' if wrong else 'holds nothing'}",
            "words such as 0xEE44EE44",
        )
    return _filled(layout, [int(part, 16) for part in parts], str(path))


def _from_array(path: Path, shape: tuple[int, ...]) -> Bits:
    archive = ArrayFile(path, f"uint32 {list(shape)}, as numpy.save writes it")
    if "e" not in archive.names and len(archive.names) != 1:
        found = ", ".join(archive.names) or "nothing"
        raise IsaError(str(path), -1, f"{path}: an archive of {found}", "one array, or one called e")
    array = archive.read("e" if "e" in archive.names else archive.names[0])
    if array.dtype != np.uint32 or array.size != int(np.prod(shape)):
        raise IsaError(
            str(path), -1, f"{path}: metadata of type {array.dtype} and shape {array.shape}", f"uint32 {list(shape)}"
        )
    return np.ascontiguousarray(array.reshape(shape))
