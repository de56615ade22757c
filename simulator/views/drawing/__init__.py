"""Pictures of layouts, as SVG text.

    >>> from simulator.views.drawing import draw
    >>> from simulator.layout import form_layout, read_metadata
    >>> found = form_layout("mma.sp.m16n8k32.f32.f16.f16.f32")
    >>> picture = draw(found, selection=read_metadata(found, "random"), palette="safe")    # a notebook shows it by
    itself
    >>> picture.svg.count("data-operand="), picture.title
    (832, 'mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32')

`picture.save("x.svg")` writes it; `simulator.views.drawing.page.html` makes a page of it.
"""

from simulator.views.drawing.figures import draw
from simulator.views.drawing.palettes import DEFAULT, PALETTES
from simulator.views.drawing.svg import Picture
from simulator.views.drawing.tmem import datapath_figure

__all__ = ["DEFAULT", "PALETTES", "Picture", "datapath_figure", "draw"]
