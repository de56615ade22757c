"""The explorer's page in a browser: what it computes, against the mappings, the selection and the arithmetic of Python;
and the command."""

from __future__ import annotations

import base64
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
from isa.forms.mma import MmaForm
from isa.types import pack
from simulator import mma, mma_sp
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.layout import Choice, FormLayout, Selection, random_words, select
from simulator.views.explorer import SCRIPTS, page
from simulator.views.explorer.data import page_data
from tests.support.explorer_browser import (
    DENSE,
    F16,
    LOADS,
    S4,
    SCALED,
    STACKED,
    TF32,
    TMEM,
    TMEM_SCALED,
    choice_of,
    layout_of,
    needs_chromium,
    the_page,
)
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]

OPCODES = [form["opcode"] for form in page_data("")["forms"]]


# The page


def test_page_is_one_small_file() -> None:
    """Nothing is loaded from anywhere; and it stays small."""
    text = the_page()
    assert len(text) < 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<>`]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(
        r"<link (?!rel=\"icon\" href=\"data:,\")|<script[^>]* "
        r"src|@import|url\((?!#)|fetch\(|XMLHttpRequest|WebSocket|import\(",
        text,
    )
    assert "{{" not in text


def test_every_form_is_there() -> None:
    assert set(isa.mma_forms()) <= set(OPCODES)
    families = {form["family"] for form in page_data("")["forms"]}
    assert families == {
        "mma",
        "mma.sp",
        "ldmatrix",
        "tcgen05.mma",
        "tcgen05.mma.sp",
        "tcgen05.mma.ws",
        "tcgen05.mma.ws.sp",
    }
    kinds = {form["type"] for form in page_data("")["forms"] if form["family"].startswith("tcgen05")}
    assert kinds == {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"}


@pytest.mark.exhaustive
def test_wheel_has_the_scripts(tmp_path: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        f"simulator/views/explorer/{name}"
        for name in (*(f"{script}.js" for script in SCRIPTS), "page.html", "explorer.css")
    } <= names


# Layouts


@needs_chromium
def test_positions_of_every_operand_of_every_form(browse: Callable[..., Any]) -> None:
    """Cell by cell, both directions; and the formulas with their numbers."""
    found = browse("positions")
    assert {form["opcode"] for form in found["forms"]} == set(OPCODES)
    checked = set()
    for form in found["forms"]:
        layout = layout_of(form["opcode"], choice_of(form))
        assert set(layout.operands) == set(form["operands"])
        for name, operand in layout.operands.items():
            number = form["operands"][name]
            key = (number, operand.mapping, operand.bits, operand.used, operand.name)
            if key in checked:
                continue
            checked.add(key)
            shown = found["operands"][number]
            assert tuple(shown["shape"][: len(operand.shape)]) == operand.shape
            places = np.frombuffer(base64.b64decode(shown["places"]), np.uint8).reshape(-1, 4)
            table = operand.table
            assert np.array_equal(
                places, np.stack([table[name] for name in ("lane", "word", "low", "high")], axis=1)
            ), (form["opcode"], name)
            assert shown["held"] == len(table["lane"])
            _check_words(operand, shown)
    others = {number for group in page_data("")["warpgroups"] for number in _operands(group)}  # test_explorer_use.py
    assert {number for number, *_ in checked} == set(range(len(found["operands"]))) - others


def _operands(form: dict[str, Any]) -> set[int]:
    """The numbers of all operands of a form."""
    return {
        number for view in form["views"] for by_choice in view["operands"].values() for number in by_choice.values()
    }


def _check_words(operand: Any, shown: dict[str, Any]) -> None:
    """The name and the formulas of the last element."""
    coordinates = shown["last"][: len(operand.shape)]
    assert shown["name"] == operand.name_of(operand.places(*coordinates)[-1])
    at = dict(zip(operand.axes, coordinates, strict=True))
    place = {
        name: int(value)
        for name, value in zip(dict(operand.mapping.places), operand.mapping.positions(**at), strict=True)
    }
    for name, formula, numbers, value in shown["formulas"]:
        assert formula == operand.formulas()[name]
        assert numbers == operand.formulas(**at)[name]
        assert eval(numbers.replace("/", "//")) == value == place[name]
    for name, formula, numbers, value in shown["back"]:
        assert formula == operand.formulas()[name]
        assert numbers == operand.formulas(**place)[name]
        assert eval(numbers.replace("/", "//")) == value == at[name]


@pytest.mark.exhaustive
@needs_chromium
def test_cells_say_where_they_are(browse: Callable[..., Any]) -> None:
    """data-row, -column, -lane, -reg and -bits of the panels as they are drawn, for forms of each family."""
    forms = [
        *((opcode, {}) for opcode in (F16, TF32, S4, DENSE, STACKED, SCALED, LOADS)),
        (TMEM, {"m": 64, "base": 16}),
        (TMEM_SCALED, {"n": 32}),
        ("tcgen05.mma.ws.cta_group::1.kind::i8", {"m": 32}),
        ("tcgen05.mma.cta_group::2.kind::mxf4.block_scale", {"m": 128, "n": 16}),
    ]
    for opcode, found in browse("cells", forms).items():
        layout = layout_of(opcode, choice_of(found))
        panels = found["cells"]
        for name, operand in layout.operands.items():
            table = operand.table
            keys = ("row", "column", "lane", "word", "low", "high")
            every = {
                (row, column, lane, word, f"{high}:{low}")
                for row, column, lane, word, low, high in zip(*(table[k].tolist() for k in keys), strict=True)
            }
            if found["tmem"]:
                cells = {tuple(cell[:5]) for cell in panels[f"tmem-{name}"]}
                assert cells <= every if name == "d" else cells == every
                assert len(cells) >= 3
                continue
            assert {tuple(cell[:5]) for cell in panels[name]} == every
            assert len(panels[name]) == len(every)
        if layout.sparsity is not None and not found["tmem"]:
            assert len(panels["logical"]) == layout.rows * layout.k
            places = {tuple(cell[2:5]) for cell in panels["logical"] if cell[4] is not None}
            assert places == {tuple(cell[2:5]) for cell in panels["a"]}


# Metadata


def words_to_try(found: FormLayout, seed: int) -> list[np.ndarray]:
    """Every code in every place; random words; random defined codes."""
    shape = (128, 2) if found.metadata is not None else (32,)
    rng = np.random.default_rng(seed)
    chosen = [rng.integers(0, 1 << 32, shape, dtype=np.uint32), random_words(found, seed)]
    return [*(np.full(shape, 0x11111111 * code, np.uint32) for code in range(16)), *chosen]


def compare_selection(shown: dict[str, Any], selection: Selection) -> None:
    assert shown["codes"] == selection.codes.tolist()
    stored = selection.sparsity.stored
    for row, columns in enumerate(shown["columns"]):
        for column, ks in enumerate(columns):
            if selection.joined[row, column // stored]:
                first = column * selection.sparsity.chunk // stored
                assert ks == [first, first + 1]
            else:
                assert ks == [int(selection.columns[row, column])]
    findings = {(f["row"], f["chunk"]): (f["code"], f["rule"]) for f in shown["findings"]}
    broken = {tuple(map(int, at)): name for name, hits in selection.findings.items() for at in np.argwhere(hits)}
    assert findings == {at: (int(selection.codes[at]), name) for at, name in broken.items()}


@needs_chromium
def test_selection_and_legality(browse: Callable[..., Any]) -> None:
    """All 16 codes, and random words, in each sparse form of its own pattern, K, order and selectors."""
    forms: dict[Any, tuple[FormLayout, dict[str, int]]] = {}
    for record in page_data("")["forms"]:
        if "sparsity" not in record:
            continue
        view = record["views"][-1]
        for selector in record["selectors"][-1:]:
            tmem = bool(view["layout"])
            choice = Choice(
                selector=selector, base_lane=view["base"], **({"m": view["m"], "n": view["n"]} if tmem else {})
            )
            open_ = {"m": view["m"], "n": view["n"], "base": view["base"], "selector": selector}
            forms.setdefault(
                (view["k"], tuple(record["verdicts"]), view["layout"]), (layout_of(record["opcode"], choice), open_)
            )
    assert len(forms) > 15
    words = [words_to_try(found, seed) for seed, (found, _) in enumerate(forms.values())]
    # of Tensor Memory the last few words alone: what differs from mma.sp is where codes are, not what they mean
    words = [
        group if found.metadata is None else group[-3:] for group, (found, _) in zip(words, forms.values(), strict=True)
    ]
    data = [
        [found.opcode, open_, [w.ravel().tolist() for w in group]]
        for group, (found, open_) in zip(words, forms.values(), strict=True)
    ]
    for group, shown, (found, _) in zip(words, browse("selected", data), forms.values(), strict=True):
        for these, one in zip(group, shown, strict=True):
            compare_selection(one, select(found, these))


def distinct_forms() -> list[MmaForm]:
    """One form of each shape, pair of types, accumulator and bit operation."""
    found: dict[Any, MmaForm] = {}
    for form in isa.mma_forms().values():
        key = (
            form.sparse,
            form.m,
            form.n,
            form.k,
            form.a_type,
            form.b_type,
            form.d_type,
            form.row.operation,
            form.a_layout,
            form.b_layout,
            form.row.kind,
        )
        found.setdefault(key, form)
    return list(found.values())


def patterns(values: list[list[float]], element: Any) -> np.ndarray:
    if element.bits == 64:
        return np.array(values, np.float64).view(np.uint64)
    if not element.is_float:
        return np.array(values, np.int64).astype(np.uint32) & np.uint32(element.mask)
    return from_float64(np.array(values, np.float64), element)


def numbers(bits: np.ndarray, element: Any) -> np.ndarray:
    if element.bits == 64:
        return bits.view(np.float64)
    return bits.view(np.int32).astype(np.float64) if not element.is_float else to_float64(bits, element)


def simulated(form: MmaForm, shown: dict[str, Any], words: list[int], selector: int) -> np.ndarray:
    """D of the simulator for the page's own operands, row by row."""
    a, b, c = (getattr(form, n).scatter(patterns(shown[n], getattr(form, f"{n}_type")))[None] for n in "abc")
    targets = form.targets.text
    target = f"sm_{form.targets.lowest}" if targets.endswith("+") else f"sm_{targets.split()[0]}"
    scales: dict[str, Any] = {}
    if form.row.scale:
        one = {"ue8m0": 0x7F, "ue4m3": 0x38}[form.scale_a.type.name]
        scales = {name: pack(np.full((1, 32, 4), one, np.uint32), 8)[..., 0] for name in ("scale_a", "scale_b")}
    if form.sparse:
        target = "sm_90a" if targets.endswith("+") else target
        d = mma_sp(form.opcode, a, b, c, np.array([words], np.uint32), selector, target, **scales)
    else:
        d = mma(form.opcode, a, b, c, target, **scales)
    return numbers(form.d.gather(d)[0], form.d_type).ravel()


@needs_chromium
def test_d_is_what_the_simulator_gives(browse: Callable[..., Any]) -> None:
    """Every shape and type, defined and undefined codes alike; the metadata that the page makes is defined."""
    rng = np.random.default_rng(7)
    forms = distinct_forms()
    data = []
    for form in forms:
        selector = form.metadata.selectors - 1 if form.sparse else 0
        words = [rng.integers(0, 1 << 32, 32, dtype=np.uint32).tolist() for _ in range(2)] if form.sparse else [[0]]
        data.append([form.opcode, selector, words])
    for form, (_, selector, words), shown in zip(forms, data, browse("numbers", data), strict=True):  # type: ignore[assignment]
        for these, d in zip(words, shown["d"], strict=True):
            assert np.array_equal(simulated(form, shown, these, selector), d), form.opcode
        if form.sparse:
            for made in ("default", "random"):
                codes = form.metadata.gather(np.array(shown[made], np.uint32), selector)
                assert form.metadata.legal(codes).all()


# The command


def test_command_writes_a_page(
    tcsim: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tcsim("explore") == (0, "tcsim-explorer.html\n", "")
    assert (tmp_path / "tcsim-explorer.html").read_text(encoding="utf-8") == the_page()
    code, out, _ = tcsim("explore", "mma.m8n8k4.f16.f16.f16.f16", "--palette", "bw", "--output", "other.html")
    assert (code, out) == (0, "other.html\n")
    text = (tmp_path / "other.html").read_text(encoding="utf-8")
    assert '"first":"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16"' in text
    assert '"palette":"bw"' in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["mma.sp.m16n8k33.f32.f16.f16.f32"], 1, "m16n8k33"),
        (["tcgen05.cp.cta_group::1.128x128b"], 1, "the explorer does not show 'tcgen05.cp.cta_group::1.128x128b'"),
        (["--palette", "pink"], 2, "pastel"),
        (["--serve", "70000"], 2, "no port '70000'"),
        (["--output", "/no/such/folder/x.html"], 2, "/no/such/folder/x.html: cannot be written"),
    ],
)
def test_bad_use(tcsim: Callable[..., tuple[int, str, str]], arguments: list[str], code: int, words: str) -> None:
    found, out, err = tcsim("explore", *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1


def test_spellings_that_mean_the_same() -> None:
    """What an opcode may say beyond what layouts depend on is left out."""
    assert '"first":"tcgen05.mma.cta_group::1.kind::mxf4.block_scale"' in page(
        "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32"
    )


def test_serve(tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine alone, until it is interrupted; writes nothing unless told to."""
    start = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('simulator', run_name='__main__')"
    )
    interruptible = [
        sys.executable,
        "-c",
        start,
        "explore",
        "--serve",
        "0",
    ]  # also where the tests run in the background, which ignores interrupts
    with subprocess.Popen(
        interruptible, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
            with urllib.request.urlopen(url, timeout=20) as answer:
                assert answer.read().decode() == the_page()
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{url}etc/passwd", timeout=20)
            server.send_signal(signal.SIGINT)
            assert server.wait(20) == 0
        finally:
            server.kill()
    assert not list(tmp_path.iterdir())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.chdir(tmp_path)
        code, out, err = tcsim("explore", "--serve", str(taken.getsockname()[1]))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot be served" in err
    assert not list(tmp_path.iterdir())
