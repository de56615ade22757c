"""Draws layouts as pictures: SVG text that shows which lane and register hold each element.

    >>> from simulator.views.drawing import draw
    >>> from simulator.layout import form_layout, read_metadata
    >>> layout = form_layout("mma.sp.m16n8k32.f32.f16.f16.f32")
    >>> picture = draw(layout, selection=read_metadata(layout, "random"), palette="safe")
    >>> picture.svg.count("data-operand="), picture.title
    (768, 'mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32')

A notebook shows a picture by itself. `picture.save("x.svg")` writes it, also as .png and .pdf;
`simulator.views.drawing.page.html` makes a page of it. `SIZES` are the formats that a picture can be laid out for.
"""

from simulator.views.drawing.figures import draw
from simulator.views.drawing.palettes import DEFAULT, PALETTES
from simulator.views.drawing.shared import draw_shared
from simulator.views.drawing.sizes import SIZES
from simulator.views.drawing.svg import Picture
from simulator.views.drawing.tmem import datapath_figure

__all__ = ["DEFAULT", "PALETTES", "SIZES", "Picture", "datapath_figure", "draw", "draw_shared"]
