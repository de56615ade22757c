"""How far apart the colours of a palette are for every kind of colour vision.

Colour blindness is simulated as in Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of
color vision deficiency", IEEE TVCG 15(6), 2009: matrices of severity 1.0 on linear sRGB. Distances are CIEDE2000
(Sharma, Wu and Dalal, Color Research and Application 30(1), 2005) under D65; about 1 is the smallest difference that
can be seen between two large fields side by side.

    >>> round(smallest("safe")["deuteranopia"], 1) > round(smallest("pastel")["deuteranopia"], 1)
    True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from simulator.tables import Table
from simulator.views.drawing.palettes import PALETTES, colours

Array = NDArray[np.float64]

VISIONS: Mapping[str, tuple[tuple[float, float, float], ...]] = MappingProxyType(
    {
        "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        "protanopia": (
            (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
        ),
        "deuteranopia": (
            (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
        ),
        "tritanopia": (
            (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
        ),
    }
)  # fmt: skip
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""Linear sRGB to CIE XYZ under D65: IEC 61966-2-1."""
SOURCE = "CIEDE2000 under D65; colour blindness by Machado, Oliveira and Fernandes 2009, severity 1.0"


def smallest(palette: str) -> dict[str, float]:
    """For each vision the smallest distance of two colours of a palette; IsaError if there is no such palette."""
    names = colours(palette)
    return {vision: min(distances(names, vision)) for vision in VISIONS}


def distances(names: Sequence[str], vision: str = "normal") -> list[float]:
    """The distances of all pairs of colours, `#rrggbb` each, as that vision sees them."""
    lab = seen(names, vision)
    first, second = np.array(list(combinations(range(len(names)), 2))).T
    result: list[float] = ciede2000(lab[first], lab[second]).tolist()
    return result


def seen(names: Sequence[str], vision: str = "normal") -> Array:
    """CIELAB coordinates [colour, 3] of colours `#rrggbb` as that vision sees them."""
    coded = np.array([[int(name[i : i + 2], 16) for i in (1, 3, 5)] for name in names]) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(VISIONS[vision]).T, 0.0, 1.0)
    ratio = linear @ _XYZ.T / _XYZ.sum(axis=1)
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def ciede2000(first: Array, second: Array) -> Array:
    """CIEDE2000 distances [pair] of CIELAB coordinates [pair, 3]; parametric factors are 1."""
    (l1, a1, b1), (l2, a2, b2) = first.T, second.T
    mean7 = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    stretch = 1 + 0.5 * (1 - np.sqrt(mean7 / (mean7 + 25.0**7)))
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    grey = c1 * c2 == 0
    turn = np.where(grey, 0.0, (h2 - h1 + 180) % 360 - 180)
    turn = np.where(~grey & (h2 - h1 == 180), 180.0, turn)
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    far = np.abs(h1 - h2) > 180
    hue = np.where(grey, h1 + h2, (h1 + h2) / 2 + np.where(far, np.where(h1 + h2 < 360, 180.0, -180.0), 0.0))
    weight = 1 - sum(
        factor * np.cos(np.radians(times * hue + phase))
        for factor, times, phase in ((0.17, 1, -30), (-0.24, 2, 0), (-0.32, 3, 6), (0.20, 4, -63))
    )
    sl = 1 + 0.015 * (lightness - 50) ** 2 / np.sqrt(20 + (lightness - 50) ** 2)
    sc, sh = 1 + 0.045 * chroma, 1 + 0.015 * chroma * weight
    blue = 60 * np.exp(-(((hue - 275) / 25) ** 2))
    turned = -np.sin(np.radians(blue)) * 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    squares = (dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + turned * (dc / sc) * (dh / sh)
    result: Array = np.sqrt(squares)
    return result


def table() -> Table:
    """For each palette its number of colours and the smallest distance of two of them for each vision."""
    rows = [
        (name, len(PALETTES[name]), *(f"{distance:.1f}" for distance in smallest(name).values())) for name in PALETTES
    ]
    return Table(("palette", "colours", *VISIONS), rows)
