"""Which lane and register hold which element of each operand of each instruction, as tables, answers and formulas. All
of them are derived from the mappings of `isa`.

    >>> from simulator.layout import form_layout
    >>> layout = form_layout("mma.sp.m16n8k32.f32.f16.f16.f32")
    >>> a = layout.operands["a"]
    >>> [a.name_of(place) for place in a.places(5, 6)], a.elements(lane=23, word=0, low=0, high=15)
    (['T23 a0[15:0]'], [(5, 6)])

`simulator.layout.queries` answers where, what and why; `simulator.views.drawing` draws. docs/layouts.md shows both.
"""

from simulator.layout.catalog import form_layout
from simulator.layout.form import Choice, FormLayout
from simulator.layout.metadata import Selection, random_words, read_metadata, select
from simulator.layout.operand import Operand, Place

__all__ = [
    "Choice",
    "FormLayout",
    "Operand",
    "Place",
    "Selection",
    "form_layout",
    "random_words",
    "read_metadata",
    "select",
]
