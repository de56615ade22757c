"""The explorer's page in a browser: what lights up and what it says after clicks and keys, and what its address
holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import isa
from simulator.layout import Choice, FormLayout, Selection, select
from tests.support.explorer_browser import (
    DENSE,
    F16,
    ORDERED,
    S4,
    STACKED,
    TF32,
    TMEM,
    choice_of,
    in_each_browser,
    layout_of,
    needs_chromium,
)


def expected_lit(found: FormLayout, selection: Selection | None, at: str) -> dict[str, set[tuple[int, int]]]:
    """What belongs to an element, said once more and another way: from the list of all products."""
    name, *numbers_ = at.split(".")
    products = []  # (row, stored, code's chunk, k, column of B, n) of every product
    for row in range(found.rows):
        for s in range(found.k_stored):
            if selection is None:
                ks, chunk = [s], 0
            else:
                chunk = s // selection.sparsity.stored
                first = chunk * selection.sparsity.chunk
                ks = [first, first + 1] if selection.joined[row, chunk] else [int(selection.columns[row, s])]
            products += [(row, s, chunk, k, found.b_column(row, n), n) for k in ks for n in range(found.n)]
    of = {"a": (0, 1), "logical": (0, 3), "b": (3, 4), "c": (0, 5), "d": (0, 5), "e": (0, 2)}
    names = [n for n in of if n in found.operands or (n == "logical" and selection is not None)]
    if name == "lane":
        lane = int(numbers_[0])
        lit = {
            n: {(int(r), int(c)) for r, c in np.argwhere(found.operands[n].grid["lane"] == lane)}
            for n in found.operands
        }
        if selection is not None:
            lit["logical"] = {(p[0], p[3]) for p in products if (p[0], p[1]) in lit["a"]}
        return lit
    chosen = tuple(map(int, numbers_))
    mine = [p for p in products if tuple(p[i] for i in of[name]) == chosen]
    lit = {n: {tuple(p[i] for i in of[n]) for p in mine} for n in names}  # type: ignore[misc]
    lit[name].add(chosen)  # type: ignore[arg-type]
    if selection is not None and name in ("e", "logical"):
        chunk = chosen[1] if name == "e" else chosen[1] // selection.sparsity.chunk
        lit["e"].add((chosen[0], chunk))
        if name == "e":
            lit["logical"] |= {
                (chosen[0], chunk * selection.sparsity.chunk + i) for i in range(selection.sparsity.chunk)
            }
    return lit


def check_words(found: FormLayout, selection: Selection | None, at: str, info: str) -> None:
    """The elements, places and codes that the box must name."""

    def place(name: str, *coordinates: int) -> str:
        operand = found.operands[name]
        return operand.name_of(operand.places(*coordinates)[0])

    def columns(row: int, s: int) -> list[int]:
        if selection is None:
            return [s]
        chunk = s // selection.sparsity.stored
        first = chunk * selection.sparsity.chunk
        return [first, first + 1] if selection.joined[row, chunk] else [int(selection.columns[row, s])]

    name, *numbers_ = at.split(".")
    if name == "lane":
        words = [operand.word_name(0) for operand in found.operands.values()]
        assert all(word in info for word in words)
        return
    row, column = map(int, numbers_)
    operand = found.operands["a" if name == "logical" else name]
    wanted = []
    if name == "d":
        for s in range(found.k_stored):
            ks = columns(row, s)
            chunk = s // selection.sparsity.stored if selection is not None else 0
            why = (
                f", {int(selection.codes[row, chunk]):#06b} in {place('e', row, chunk)}"
                if selection is not None
                else ""
            )
            n = found.b_column(row, column)
            which = "|".join(map(str, ks))
            wanted.append(
                f"A[{row}][{which}] ({place('a', row, s)}{why}) \u00d7 B[{which}][{n}] "
                f"({', '.join(place('b', k, n) for k in ks)})"
            )
    elif name == "logical":
        assert selection is not None
        held = [s for s in range(found.k_stored) if column in columns(row, s)]
        wanted += [f"stored column {s}: {place('a', row, s)}" for s in held] or ["is pruned"]
        wanted.append(
            f"of chunk {column // selection.sparsity.chunk}: {place('e', row, column // selection.sparsity.chunk)}"
        )
    else:
        wanted.append(place(name, row, column))
        wanted.append(f"lane = {operand.formulas()['lane']}")
        if name == "a":
            wanted.append(f"A[{row}][{'|'.join(map(str, columns(row, column)))}]")
    assert all(text in info for text in wanted), (at, [text for text in wanted if text not in info], info)


def check_ruler(found: FormLayout, selection: Selection, ruler: dict[str, Any]) -> None:
    """The bits of a word, and whose they are, highest first."""
    word = int(selection.words[ruler["lane"]])
    assert (ruler["word"], ruler["bits"]) == (f"{word:08X}", f"{word:032b}")
    held = [found.operands["e"].elements(ruler["lane"], 0, 4 * part, 4 * part + 3) for part in reversed(range(8))]
    assert ruler["owners"] == [list(map(str, elements[0])) if elements else [None, None] for elements in held]


@pytest.mark.exhaustive
@needs_chromium
def test_what_belongs_together_lights_up(browse: Callable[..., Any]) -> None:
    """After clicks on elements of each operand and on a lane; with defined metadata, with equal indices, and with
    joined halves."""
    forms = [
        (F16, ""),
        (F16.replace(".sp", ".sp::ordered_metadata"), "5D4E04E9"),
        (TF32, "E44EA04E"),
        (S4, "E94C7B21"),
        (DENSE, ""),
        (STACKED, ""),
    ]
    shown = browse("lit", forms)
    for opcode, found in shown.items():
        layout = layout_of(opcode, Choice())
        selection = select(layout, np.array(found["words"], np.uint32)) if found["words"] else None
        for at, step in found["steps"].items():
            lit = {name: {tuple(cell) for cell in cells} for name, cells in step["lit"].items()}
            if at == "none":
                assert not any(lit.values())
                assert "at=" not in step["hash"]
                continue
            assert lit == expected_lit(layout, selection, at), (opcode, at)
            assert step["hash"].endswith(f"&at={at}")
            check_words(layout, selection, at, step["info"])
            if selection is not None:
                check_ruler(layout, selection, step["ruler"])
    info = shown[F16]["steps"]["a.5.1"]["info"]
    assert "T20 a0[31:16]" in info
    assert "lane = column / 2 % 4 + 4 * (row % 8) = 1 / 2 % 4 + 4 * (5 % 8) = 20" in info


@pytest.mark.exhaustive
@needs_chromium
def test_copies_in_tensor_memory_light_up(browse: Callable[..., Any]) -> None:
    """A code, its stored elements and its row of D, in every copy; and what a lane holds."""
    forms = [(TMEM, {"m": 64, "base": 16, "n": 32}), ("tcgen05.mma.ws.sp.cta_group::1.kind::i8", {"m": 32})]
    for found in browse("in_tmem", forms):
        layout = layout_of(found["opcode"], choice_of(found))
        stored = layout.sparsity.stored if layout.sparsity else 0

        def places(name: str, rows: list[tuple[int, int]], layout: FormLayout = layout) -> set[tuple[Any, ...]]:
            operand = layout.operands[name]
            return {(*at, p.lane, p.word, f"{p.high}:{p.low}") for at in rows for p in operand.places(*at)}

        assert {tuple(cell) for cell in found["code"]["e"]} == places("e", [(21, 3)])
        assert {tuple(cell) for cell in found["code"]["a"]} == places(
            "a", [(21, 3 * stored + i) for i in range(stored)]
        )
        assert {tuple(cell) for cell in found["code"]["d"]} == {(21, n) for n in range(layout.n)}
        assert found["code"]["rows"] == "16"
        for name in "ae":
            table = layout.operands[name].table
            mine = table["lane"] == 53
            elements = set(zip(table["row"][mine].tolist(), table["column"][mine].tolist(), strict=True))
            assert {tuple(cell[:2]) for cell in found["lane"][name]} == elements
        codes = select(layout, np.array(found["words"], np.uint32).reshape(128, 2))
        assert codes.legal.all()


@pytest.mark.exhaustive
@in_each_browser
def test_session_and_link(browse: Callable[..., Any], browser: str) -> None:
    """Flip bits, type words, choose the selector; go back and forward; open the link anew."""
    first, chosen, flipped, again, other, moved, second, typed, grey, refused, back, forward, random, reset = browse(
        "session", None, f"#form={F16}", browser=browser
    )
    form = isa.mma_form(F16)
    assert first["changed"] == chosen["changed"] == again["changed"] == []
    assert chosen["at"] == "e.5.6"
    assert again["hash"] == chosen["hash"]
    assert again["words"] == first["words"]
    for step, bit in ((flipped, 9), (other, 8)):  # T21 holds the codes of row 5 in its lower half
        assert [i for i in range(32) if step["words"][i] != first["words"][i]] == [21]
        assert step["words"][21] == first["words"][21] ^ 1 << bit
        assert {row for row, _ in step["changed"]} == {5}
        differs = [[i // 8, i % 8] for i in range(128) if step["values"][i] != first["values"][i]]
        assert step["changed"] == differs
        assert f"{len(differs)} of 128 elements of D change" in step["changes"]
    for step in (flipped, other):
        codes = form.metadata.gather(np.array(step["words"], np.uint32), 0)
        broken = int((~form.metadata.legal(codes)).sum())
        assert (f"{broken} code" in step["legality"]) == (broken > 0)
    assert moved["at"] == "e.5.5"
    assert second["selector"] == 1
    assert [i for i in range(32) if typed["words"][i] != second["words"][i]]
    assert 0x4444EEEE in typed["words"]
    assert grey["hash"].endswith("&palette=bw")
    assert grey["palette"] != typed["palette"]
    assert refused["words"] == grey["words"]
    assert back["hash"] == again["hash"]  # the arrow key took no step of its own
    assert forward == grey | {"hash": forward["hash"]}
    assert forward["hash"] == grey["hash"]
    assert "random:" in random["hash"]
    assert form.metadata.legal(form.metadata.gather(np.array(random["words"], np.uint32), 1)).all()
    assert reset["words"] == first["words"]
    assert browse("session", "restore", grey["hash"], browser=browser) == grey


STRANGE = "#form=none&e=zz,99:1,3:xyz,4:0F&at=q.9.9&palette=%E0%A4%A&selector=9&m=7&what=ever&cells=small"


@pytest.mark.exhaustive
@needs_chromium
def test_strange_links(browse: Callable[..., Any]) -> None:
    """What a link says that cannot be is left out."""
    assert browse("strange", None, STRANGE) == [ORDERED, 0, None, 0x0F, True]


@pytest.mark.exhaustive
@needs_chromium
def test_picker_and_picture(browse: Callable[..., Any]) -> None:
    result = browse("picker", [F16, S4, DENSE, F16])
    filtered, words, whole, entered, nothing = result["found"]
    assert filtered == [o for o in isa.mma_forms() if o.startswith("mma.sp.") and ".bf16.bf16." in o]
    assert words == [o for o in isa.mma_forms() if "mma.sp" in o and "k64" in o and "e5m2" in o and "kind::f8f6f4" in o]
    assert whole == entered == ["mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16"]
    assert nothing == []
    assert max(result["times"]) < 2000  # milliseconds; a tenth of it on an idle core
    assert result["svg"] == ["svg", 256]
