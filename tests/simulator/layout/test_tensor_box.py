"""What `tcsim layout tensormap` shows of copies with slices, four rows, sub-byte types and larger atoms."""

from __future__ import annotations

import pytest

from isa.errors import IsaError
from simulator.layout.tensor_box import BoxLayout, explained, name_of, read_map
from simulator.views.drawing.tensor_box import draw_box

ROWS = "type=f16,size=64x32,box=64x1,swizzle=128"
SLICES = "type=u16,interleave=16,size=5x3x2x4,box=8x2x1x1,swizzle=32"
WIDE = "type=f16,size=32x9x7x4,lower=-1x0,upper=-1x0,channels=32,pixels=6,swizzle=64"


def line(layout: BoxLayout, number: int) -> list[str]:
    """The cells of a line of 128 bytes."""
    return [name_of(unit) for unit in layout.line(number)]


def test_cells_are_those_of_the_tables() -> None:
    rows = BoxLayout(read_map(ROWS), (0, 3, 1, 40, 2), mode="tile::gather4")
    assert line(rows, 1) == ["8,1", "0,1", "24,1", "16,1", "40,1", "32,1", "56,1", "48,1"]
    assert line(rows, 2)[0] == "[16,40]"
    slices = BoxLayout(read_map(SLICES), (1, 0, 0, 0))
    assert line(slices, 1) == ["2,1,0,0", "1,1,0,0", "4,1,0,0", "3,1,0,0", *(f"[{w},1,0,0]" for w in (6, 5, 8, 7))]
    atoms = BoxLayout(read_map("type=u8,size=128x8,box=128x4,swizzle=128,atom=64"), (0, 0))
    assert line(atoms, 1) == [f"{byte},1" for byte in (64, 80, 96, 112, 0, 16, 32, 48)]
    packed = BoxLayout(read_map("type=b6x16_p32,size=256x64,box=128x3,swizzle=128"), (128, 2))
    assert line(packed, 1) == [f"{element},3" for element in (144, 128, 176, 160, 208, 192, 240, 224)]
    wide = BoxLayout(read_map(WIDE), (0, -1, 2, 0), (1, 0), mode="im2col::w")
    assert line(wide, 0)[4:] == ["0,0,2,0", "8,0,2,0", "16,0,2,0", "24,0,2,0"]
    assert line(wide, 3)[4:] == ["-"] * 4  # 7 pixels of 64 bytes, the last a halo


@pytest.mark.parametrize(
    ("text", "start", "mode", "outside", "counted", "inferred"),
    [
        (ROWS, (0, 3, 1, 40, 2), "tile::gather4", 64, 512, True),
        (SLICES, (0, 0, 0, 0), "", 6 * 8, 256, False),
        ("type=b4x16,size=256x64,box=128x3", (224, 2), "", 3 * 96, 192, True),
        ("type=b4x16_p64,size=128x4,box=128x2", (0, 3), "", 128, 128, True),
        ("type=b6x16_p32,size=128x4,box=128x2", (0, 3), "", 128, 192, True),
        ("type=f16,size=60x4,box=64x2", (0, 3), "", 4 + 64, 256, False),
    ],
)
def test_notes_count_elements_outside_and_bytes(
    text: str, start: tuple[int, ...], mode: str, outside: int, counted: int, *, inferred: bool
) -> None:
    layout = BoxLayout(read_map(text), start, mode=mode)
    assert layout.notes[2].startswith(f"{outside} elements lie outside")
    assert layout.notes[1].startswith(f"the mbarrier counts {counted} bytes")
    assert ("inferred" in layout.notes[3]) == inferred
    assert len(layout.table().rows) == len(layout.units)
    assert draw_box(layout)


@pytest.mark.parametrize(
    ("text", "start", "mode", "reason"),
    [
        (ROWS, (0, 0), "tile::gather4", "2 coordinates of a tensor of 2 dimensions"),
        (ROWS, (0, 0), "im2col::w", "a copy with .im2col::w of a map that is tiled"),
        (WIDE, (0, 0, 0, 0), "im2col::w", "0 offsets of a copy with .im2col::w"),
        (WIDE, (0, 12, 0, 0), "", "the base pixel's W is 12, outside of its box -1 to 7"),
    ],
)
def test_copies_that_there_are_not_are_refused(text: str, start: tuple[int, ...], mode: str, reason: str) -> None:
    with pytest.raises(IsaError, match=reason):
        BoxLayout(read_map(text), start, mode=mode)


def test_a_map_in_words_says_its_atoms() -> None:
    text = explained(read_map("type=f16,size=64x32,box=64x4,swizzle=128,atom=32,flip=8"))
    assert "swizzle           128 bytes, 32-byte atoms, 8-byte flip" in text
    assert "inferred from the text" in text
