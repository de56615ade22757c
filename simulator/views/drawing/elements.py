"""Elements of SVG as text: lines of words, data attributes, numbers."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

FAINT_INK = "#555555"


def short(value: float) -> str:
    """A number without superfluous zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    *,
    anchor: str = "middle",
    weight: str = "",
    fill: str = "",
    turn: float = 0,
) -> str:
    """A line of text; `turn` is in degrees around (x, y)."""
    more = (
        f' text-anchor="{anchor}"'
        + (f' font-weight="{weight}"' if weight else "")
        + (f' fill="{fill}"' if fill else "")
    )
    more += f' transform="rotate({short(turn)} {short(x)} {short(y)})"' if turn else ""
    return f'<text x="{short(x)}" y="{short(y)}" font-size="{short(size)}"{more}>{escape(words)}</text>'


def data(**values: object) -> str:
    """Attributes: `data(lane=9, bits="31:16")` is ` data-lane="9" data-bits="31:16"`."""
    return "".join(f" data-{name}={quoteattr(str(value))}" for name, value in values.items())
