"""The colours of lanes in pictures. Every colour is light enough for black text on it (contrast of 7 or more: WCAG
level AAA)."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping

from isa.errors import IsaError

INK, PAPER, FAINT, STRONG = "#000000", "#ffffff", "#8a8a8a", "#c8c8c8"


def _shade(group: int, step: int) -> str:
    """One of 8 shades of one of 4 hues."""
    hue = (0.58, 0.08, 0.36, 0.86)[group]
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, 0.95 - 0.042 * step, 0.75))


PALETTES: Mapping[str, tuple[str, ...]] = {
    # CuTe's own eight, by lane modulo 8 (CUTLASS print_latex and print_svg): the field knows them
    "pastel": ("#afafff", "#afffaf", "#ffffaf", "#ffafaf", "#d2d2ff", "#d2ffd2", "#ffffd2", "#ffd2d2"),
    # 32 colours, so that no two lanes of a warp share one: the hue says lane modulo 4, the lightness lane / 4
    "distinct": tuple(_shade(lane % 4, lane // 4) for lane in range(32)),
    # told apart with any colour vision: of the sets of 8 colours of chroma up to 58 that black text can be read on, one
    # whose smallest distance for the worst of four visions is about as large as it can be (by simulated annealing on
    # `simulator.views.drawing.vision.smallest`)
    "safe": ("#fcdc6e", "#66dff5", "#bc8c8a", "#8b94fa", "#86a541", "#fefed2", "#9c92ae", "#bad4ca"),
    # for print: eight greys at equal steps of lightness, in an order that sets neighbours apart
    "bw": ("#ffffff", "#c3c3c3", "#e0e0e0", "#a6a6a6", "#f0f0f0", "#b4b4b4", "#d1d1d1", "#979797"),
}
DEFAULT = "pastel"


def colours(palette: str) -> tuple[str, ...]:
    """The colours of a palette, 8 or 32 of them; IsaError with the known names if there is no such palette."""
    chosen = PALETTES.get(palette)
    if chosen is None:
        raise IsaError(palette, -1, f"no palette '{palette}'", ", ".join(PALETTES))
    return chosen


def number(lane: int, count: int, *, tmem: bool = False) -> int:
    """Which of `count` colours a lane has: lanes of a warp in turn; rows in Tensor Memory in groups (of 16 rows with 8
    colours, of 4 rows with 32)."""
    return lane * count // 128 % count if tmem else lane % count
