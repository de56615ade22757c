"""Writes pictures as SVG, PNG and PDF. PNG and PDF are made of the SVG by Typst (the extra `pictures`), which brings
its own fonts, so that a picture is the same on every machine; text stays text in a PDF. It is loaded here alone."""

from __future__ import annotations

from simulator.errors import MissingDependency, ViewError

SUFFIXES = (".svg", ".png", ".pdf")
PPI = 192  # of a PNG of a picture whose size says no resolution: two dots a pixel
_PAGE = """\
#set document(title: sys.inputs.title)
#set page(width: {width}pt, height: {height}pt, margin: 0pt)
#image(bytes(sys.inputs.svg), format: "svg", width: 100%, height: 100%, alt: sys.inputs.title)
"""


def rendered(svg: str, points: tuple[float, float], suffix: str, *, title: str = "", ppi: int = PPI) -> bytes:
    """The content of a file of a picture.

    Args:
        svg: the picture.
        points: its width and height on paper, in points of 1/72 inch.
        suffix: ".svg", ".png" or ".pdf".
        title: what it shows, for the PDF's readers.
        ppi: dots of a PNG in an inch.

    Raises:
        ViewError: another suffix.
        MissingDependency: PNG or PDF without Typst.
    """
    if suffix not in SUFFIXES:
        raise ViewError(f"a picture cannot be written as '{suffix}'", f"a name that ends in {', '.join(SUFFIXES)}")
    if suffix == ".svg":
        return svg.encode()
    _check(suffix)
    import typst

    page = _PAGE.format(width=points[0], height=points[1]).encode()
    content = typst.compile(
        page,
        format="png" if suffix == ".png" else "pdf",
        ppi=ppi if suffix == ".png" else None,
        sys_inputs={"svg": svg, "title": title},
        ignore_system_fonts=True,
        timestamp=0,
    )
    assert isinstance(content, bytes)
    return content


def _check(suffix: str) -> None:
    """MissingDependency if files with this suffix cannot be written here."""
    if suffix in (".png", ".pdf"):
        try:
            import typst as _  # noqa: F401
        except ImportError:
            raise MissingDependency("typst", f"a picture as {suffix.removeprefix('.').upper()}", "pictures") from None
