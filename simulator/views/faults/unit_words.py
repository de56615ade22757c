"""Says in words which part of the tensor core unit a fault strikes, and what this part computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.fragments.metadata import stored_columns
from isa.types import Bits
from simulator.arithmetic import Sum
from simulator.arithmetic.anatomy import EXPONENT_BIT, SIGN_BIT, Anatomy
from simulator.faults.table import MODELS, SITES
from simulator.faults.unit.mapping import HALVES, WORD_BITS, position

_HELD = {"flip": "inverted", "stuck0": "stuck at 0", "stuck1": "stuck at 1", "set": "held at"}


def struck(fault: Any, how: Sum) -> str:
    """The part that a fault strikes, its bits, and what becomes of them."""
    site, model = SITES[int(fault["site"])], MODELS[int(fault["model"])]
    word, mask, anatomy = int(fault["word"]), int(fault["mask"]), Anatomy(how)
    where = "" if site == "selector_input" else " of the unit of D[{}][{}]".format(*position(int(fault["lane"]), how.n))
    if site in ("term", "adder"):
        word, mask = word // HALVES, mask << WORD_BITS * (word % HALVES)
    value = f" {int(fault['value']):#x}" if model == "set" else ""
    during = "" if int(fault["lane2"]) < 0 else f" in step {int(fault['lane2'])}"
    return f"{_part(site, word, anatomy)}{where}, {_bits(site, mask, anatomy)} {_HELD[model]}{value}{during}"


def _part(site: str, word: int, anatomy: Anatomy) -> str:
    last = {"term": anatomy.inputs, "adder": anatomy.leaves - 1}.get(site)
    if word == last:
        return "the term of C" if site == "term" else f"adder {word}, which adds C"
    if site == "adder":
        first, stop = anatomy.spans[word].tolist()
        return f"adder {word}, of terms {first} to {stop - 1},"
    if site == "output":
        return "the result of every step" if word else "the output"
    names = {"multiplier": f"multiplier {word}", "term": f"term {word}", "mux": f"multiplexers of code {word}"}
    return names.get(site, "the selector's input")


def _bits(site: str, mask: int, anatomy: Anatomy) -> str:
    """The bits of a mask by the field that they are in."""
    fields = {"": (0, 64)}
    if site == "multiplier" and anatomy.how.a_type.is_float:
        fields = {"significand ": (0, EXPONENT_BIT), "exponent ": (EXPONENT_BIT, SIGN_BIT), "sign ": (SIGN_BIT, 32)}
    elif site == "mux" and anatomy.how.sparsity is not None:
        lines = anatomy.how.sparsity.index_bits
        fields = {f"select lines {mux}: ": (lines * mux, lines * (mux + 1)) for mux in range(2)}
    said = []
    for name, (low, high) in fields.items():
        bits = [bit - low for bit in range(low, high) if mask >> bit & 1]
        if bits:
            said.append(f"{name}bit{'s' * (len(bits) > 1)} {', '.join(map(str, bits))}")
    return "; ".join(said) or "no bit"


def computes(fault: Any, how: Sum, codes: Bits | None) -> list[str]:
    """What the struck multiplier or multiplexers work on, a line for each step; none for other parts.

    Args:
        fault: the row of the list.
        how: the sum.
        codes: the metadata [row, chunk]; None if dense.
    """
    site, place, only = SITES[int(fault["site"])], int(fault["word"]), int(fault["lane2"])
    row, column = position(int(fault["lane"]), how.n)
    lines = []
    for step, columns in enumerate(how.steps):
        if only not in (-1, step):
            continue
        if site == "multiplier" and place < len(columns):
            stored = columns[place]
            of_b = stored
            if codes is not None and how.sparsity is not None:
                of_b = int(stored_columns(codes[row], how.sparsity)[stored])
            lines.append(f"step {step}: stored A[{row}][{stored}] * B[{of_b}][{column}]")
        elif site == "mux" and codes is not None and how.sparsity is not None:
            chunks = np.array(columns[:: how.sparsity.stored]) // how.sparsity.stored
            if place < len(chunks):
                chunk = int(chunks[place])
                lines.append(f"step {step}: chunk {chunk} of row {row}, whose code is {int(codes[row, chunk]):04b}")
    return lines
