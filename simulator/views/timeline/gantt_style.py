"""How a Gantt chart looks: a fill for each kind of instruction and each cause of a wait, in colour and in black and
white.

Colours are those of Okabe and Ito, which can be told apart with any colour vision. A wait for a unit has a pale tint of
the colour of the unit's instructions, and a hatch where tints would look alike to some eyes. In black and white, greys
and hatches tell them apart, in print too. Kinds are the units that an instruction is issued to (`Unit`), causes are
`StallReason`; one that has no fill here gets a plain grey and its own name.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.errors import ViewError

PALETTES = ("colour", "bw")
_BLACK, _WHITE, _TILE = "#000000", "#ffffff", 5
_STROKES = {  # lines of a hatch on a tile of _TILE x _TILE
    "/": "M-1,1 l2,-2 M0,5 l5,-5 M4,6 l2,-2",
    "\\": "M-1,4 l2,2 M0,0 l5,5 M4,-1 l2,2",
    "|": "M2.5,0 v5",
    "-": "M0,2.5 h5",
    "x": "M0,5 l5,-5 M0,0 l5,5",
    ".": "M1.8,2.5 h1.4",
    "+": "M2.5,0 v5 M0,2.5 h5",
}


@dataclass(frozen=True)
class Fill:
    """How a bar is filled.

    Attributes:
        colour: the colour behind.
        hatch: one of the keys of `_STROKES`, or none.
        line: the colour of the hatch.
    """

    colour: str
    hatch: str = ""
    line: str = _BLACK

    @property
    def name(self) -> str:
        """The name of its pattern, the same for equal fills."""
        return f"tcsim-{self.colour[1:]}-{list(_STROKES).index(self.hatch)}-{self.line[1:]}" if self.hatch else ""

    @property
    def paint(self) -> str:
        """The value of an SVG `fill` attribute."""
        return f"url(#{self.name})" if self.hatch else self.colour

    @property
    def ink(self) -> str:
        """The colour in which text on it can be read."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return _WHITE if 0.30 * red + 0.59 * green + 0.11 * blue < 130 else _BLACK

    def pattern(self) -> str:
        """The definition of its pattern in SVG."""
        width = 1.5 if self.hatch == "." else 0.8
        return (
            f'<pattern id="{self.name}" width="{_TILE}" height="{_TILE}" patternUnits="userSpaceOnUse">'
            f'<rect width="{_TILE}" height="{_TILE}" '
            f'fill="{self.colour}"/><path d="{_STROKES[self.hatch]}" '
            f'stroke="{self.line}" stroke-width="{width}"/></pattern>'
        )


@dataclass(frozen=True)
class Palette:
    """Fills by name.

    Attributes:
        kinds: the fills of instructions, by the unit that they are issued to.
        causes: the fills of waits.
        edges: the colour of the edges of bars, if their fill is a light one.
        edged: the width from which a bar has edges, in pixels.
    """

    kinds: dict[str, Fill]
    causes: dict[str, Fill]
    edges: str
    edged: float

    def edge(self, fill: Fill) -> str:
        """The colour of the edges of a bar with this fill."""
        return _WHITE if fill.ink == _WHITE else self.edges

    def kind(self, name: str) -> Fill:
        """The fill of instructions of a unit."""
        return self.kinds.get(name, Fill("#777777"))

    def cause(self, name: str) -> Fill:
        """The fill of waits with this cause."""
        return self.causes.get(name, Fill("#dddddd"))


def _tint(colour: str, share: float = 0.4) -> str:
    """A colour mixed with white."""
    return "#" + "".join(f"{round(255 - share * (255 - int(colour[i : i + 2], 16))):02x}" for i in (1, 3, 5))


_BLUE, _VERMILION, _GREEN, _PURPLE, _ORANGE, _SKY, _YELLOW = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#f0e442",
)
_COLOUR = Palette(
    {
        "tensor": Fill(_BLUE),
        "alu": Fill(_ORANGE),
        "fma": Fill(_ORANGE, "/", "#7a5400"),
        "shared": Fill(_GREEN),
        "barrier": Fill(_VERMILION),
        "tcgen05": Fill(_PURPLE),
        "tmem": Fill(_SKY),
        "sync": Fill(_YELLOW),
        "global": Fill("#333333"),
        "control": Fill("#5f4630"),
    },
    {
        "dependency": Fill("#c2c2c2"),
        "tensor": Fill(_tint(_BLUE, 0.55)),
        "shared": Fill(_tint(_GREEN, 0.3), "-", _tint(_GREEN, 0.75)),
        "barrier": Fill(_tint(_VERMILION), "/", _VERMILION),
        "issue": Fill(_WHITE, ".", "#555555"),
        "alu": Fill(_tint(_ORANGE, 0.6)),
        "branch": Fill("#eae0d5", "\\", "#8c6d4f"),
        "finished": Fill("#f4f4f4"),
        "tcgen05": Fill(_tint(_PURPLE), "x", _PURPLE),
        "tmem": Fill(_tint(_SKY), "+", "#2a7fb0"),
        "mbarrier": Fill(_tint(_YELLOW, 0.6), "|", "#a09000"),
        "global": Fill("#8f8f8f"),
        "sequence": Fill(_tint(_BLUE), "|", _BLUE),
    },
    _WHITE,
    3,
)
_BW = Palette(
    {
        "tensor": Fill("#1a1a1a"),
        "alu": Fill("#909090"),
        "fma": Fill("#a8a8a8", "/"),
        "shared": Fill("#5c5c5c"),
        "barrier": Fill(_WHITE, "x"),
        "tcgen05": Fill("#1a1a1a", "-", "#808080"),
        "tmem": Fill("#bdbdbd", "\\", "#707070"),
        "sync": Fill("#cccccc"),
        "global": Fill(_BLACK, "/", _WHITE),
        "control": Fill(_WHITE, "|"),
    },
    {
        "dependency": Fill(_WHITE, "/"),
        "tensor": Fill("#b0b0b0", "/", _WHITE),
        "shared": Fill("#e2e2e2"),
        "barrier": Fill(_WHITE, "x"),
        "issue": Fill(_WHITE, "."),
        "alu": Fill("#d0d0d0", "|"),
        "branch": Fill(_WHITE, "\\"),
        "finished": Fill(_WHITE),
        "tcgen05": Fill("#b0b0b0", "\\"),
        "tmem": Fill(_WHITE, "+"),
        "mbarrier": Fill("#c8c8c8", "."),
        "global": Fill("#d0d0d0", "x"),
        "sequence": Fill(_WHITE, "|"),
    },
    _BLACK,
    1.5,
)
KINDS = {
    "tensor": "mma, mma.sp",
    "alu": "integer",
    "fma": "multiply-add pipe",
    "shared": "load, store",
    "barrier": "barrier",
    "tcgen05": "tcgen05",
    "tmem": "tcgen05.ld, st",
    "sync": "mbarrier, wait, fence",
    "global": "groups of copies",
    "control": "call",
}
CAUSES = {
    "dependency": "operand",
    "tensor": "tensor pipe",
    "shared": "shared memory",
    "barrier": "barrier",
    "issue": "another warp issues",
    "alu": "integer pipe",
    "branch": "end of a loop",
    "finished": "finished",
    "tcgen05": "tcgen05 queue",
    "tmem": "Tensor Memory",
    "mbarrier": "mbarrier",
    "global": "global memory",
    "sequence": "rest of a sequence",
}


def palette(name: str) -> Palette:
    """The palette of that name; ViewError if there is none."""
    if name not in PALETTES:
        raise ViewError(f"no palette '{name}'", " or ".join(PALETTES))
    return _COLOUR if name == "colour" else _BW
