"""`tcsim prune`, `compress` and `convert`: files in, files out, one line for what is wrong, nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isa.metadata_formats import metadata_format
from simulator.studies import sparselt
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]


@pytest.fixture
def weight(tmp_path: Path) -> Path:
    path = tmp_path / "w.npy"
    np.save(path, np.random.default_rng(1).standard_normal((64, 128)).astype(np.float16))
    return path


def test_the_whole_way(tcsim: Tcsim, tmp_path: Path, weight: Path) -> None:
    """Prune, compress, to PyTorch's pair, to CUTLASS's, and back: the same matrix."""
    dense, buffer, pair, back = (tmp_path / name for name in ("p.npy", "b.npy", "t.npz", "d.npz"))
    code, out, err = tcsim("prune", weight, "--type", "f16", "--output", dense)
    assert (code, err) == (0, "")
    assert "4096 of 8192" in out
    pruned = np.load(dense)
    assert pruned.dtype == np.float16
    assert (pruned.view(np.uint16) == sparselt.prune(np.load(weight), "f16")).all()
    code, out, _ = tcsim("compress", dense, "--type", "f16", "--output", buffer)
    assert code == 0
    assert "56.25%" in out
    assert (np.load(buffer) == sparselt.compress(pruned, "f16")).all()
    size = ("--rows", "64", "--columns", "128")
    steps = [
        (buffer, "cusparselt.buffer", "torch.matrix", pair),
        (pair, "torch.matrix", "pair:cutlass.sm90.k128", back),
        (back, "pair:cutlass.sm90.k128", "dense", dense),
    ]
    for source, first, second, target in steps:
        code, _, err = tcsim(
            "convert", source, "--from", first, "--to", second, "--type", "f16", *size, "--output", target
        )
        assert (code, err) == (0, "")
    assert (np.load(dense) == pruned.view(np.uint16)).all()


def test_rounding_is_said(tcsim: Tcsim, tmp_path: Path) -> None:
    path, output = tmp_path / "w.npz", tmp_path / "p.npy"
    np.savez(path, a=np.ones((4, 4)), b=np.full((4, 4), 1.1))
    code, out, err = tcsim("prune", path, "--key", "b", "--type", "e4m3", "--format", "json", "--output", output)
    assert code == 0
    assert err == "tcsim: 16 of 16 numbers were rounded to e4m3\n"
    assert json.loads(out)["rounded"] == 16
    assert np.load(output).dtype == np.uint8


def test_pictures(tcsim: Tcsim, tmp_path: Path, weight: Path) -> None:
    picture = tmp_path / "p.svg"
    assert tcsim("prune", weight, "--type", "f16", "--algorithm", "strip", "--picture", picture)[0] == 0
    assert picture.read_text().lstrip().startswith("<?xml")
    assert tcsim("prune", weight, "--type", "f16", "--format", "csv")[1].startswith("pattern,strips,share\n")


def test_list_of_formats(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("convert", "--list", "--type", "s8")
    assert code == 0
    assert "cutlass.sm80" in out
    assert "marlin" not in out
    assert len(json.loads(tcsim("convert", "--list", "--type", "f16", "--format", "json")[1])) > 10


def bad_files(folder: Path) -> None:
    np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (folder / "junk.npy").write_text("hello")
    (folder / "cut.npy").write_bytes((folder / "w.npy").read_bytes()[:100])
    (folder / "junk.npz").write_text("hello")
    np.savez(folder / "two.npz", a=np.zeros((4, 4)), b=np.zeros(3))
    np.save(folder / "codes.npy", np.zeros((32, 16), np.uint8))
    np.save(folder / "text.npy", np.array([["a"]]))
    (folder / "w.txt").write_text("1 2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("prune objects.npy --type f16", "there is no array of numbers"),
        ("prune junk.npy --type f16", "there is no array of numbers"),
        ("prune cut.npy --type f16", "cannot be read"),
        ("prune junk.npz --type f16", "there is no array of numbers"),
        ("prune nope.npy --type f16", "No such file"),
        ("prune w.txt --type f16", "the name says no format"),
        ("prune two.npz --type f16", "2 arrays; legal: --key"),
        ("prune two.npz --key c --type f16", "no array 'c'"),
        ("prune two.npz --key b --type f16", "a matrix of shape"),
        ("prune text.npy --type f16", "a matrix of type <U1"),
        ("prune w.npy --type f17", "no sparse matrix has type 'f17'"),
        ("prune w.npy --type f16 --algorithm best", "no pruning algorithm"),
        ("prune w.npy --type f16 --output out.txt", "the name says no format"),
        ("prune w.npy --type f16 --output nowhere/out.npy", "no such folder"),
        ("prune w.npy --type f16 --output out.npy --picture out.bmp", "the name of a plot"),
        ("compress w.npy --type f16 --output out.npy", "keep more elements"),
        ("compress w.npy --type f16 --as nothing --output out.npy", "there is no form 'nothing'"),
        ("convert w.npy --type f16 --from dense --to codes", "--output is missing"),
        ("convert w.npy --type f16 --from dense --output out.npy", "--to is missing"),
        ("convert codes.npy --type f16 --from codes --to rows --output out.npy", "512 metadata codes are not defined"),
        ("convert codes.npy --type f16 --from codes --to dense --output out.npy", "metadata alone"),
        ("convert codes.npy --type f16 --from cutlass.sm80 --to codes --output out.npy", "does not tell how many rows"),
        ("convert codes.npy --type f16 --from codes --to x --output out.npy", "there is no form 'x'"),
        ("convert two.npz --type f16 --from codes --to rows --output out.npy", "no array 'data'"),
        ("convert w.npy --type f16 --from dense --to pair:torch --output out.npy", "keep more elements"),
        ("convert codes.npy --rows 0 --type f16 --from codes --to rows --output out.npy", "--rows 0"),
    ],
)
def test_one_line_and_nothing_written(
    tcsim: Tcsim, tmp_path: Path, weight: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    bad_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = tcsim(*arguments.split())
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert "pickle" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_two_arrays_need_an_npz(tcsim: Tcsim, tmp_path: Path, weight: Path) -> None:
    pruned, target = tmp_path / "p.npy", tmp_path / "t.npy"
    assert tcsim("prune", weight, "--type", "f16", "--output", pruned)[0] == 0
    code, _, err = tcsim("compress", pruned, "--type", "f16", "--as", "torch.matrix", "--output", target)
    assert code == 2
    assert "a name that ends in .npz" in err
    assert not target.exists()


# Pictures of formats


@pytest.mark.parametrize("format", ["table", "csv", "json", "markdown", "svg", "html"])
def test_layout_of_a_format(tcsim: Tcsim, format: str) -> None:
    """Every rendering names the place of the code of row 8, chunk 5."""
    code, out, err = tcsim("layout", "--metadata-format", "cutlass.sm80", "--type", "f16", "--format", format)
    assert (code, err) == (0, "")
    if format == "json":
        assert json.loads(out)["positions"][8][5] == 4 * 3 + 1
    elif format == "csv":
        assert "8,5,3,1,7:4" in out.splitlines()
    else:
        assert "3.1" in out


def test_the_picture_of_the_docs(tcsim: Tcsim, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert tcsim("layout", "--metadata-format", "cutlass.sm80", "--output", path)[0] == 0
    assert path.read_bytes() == (ROOT / "docs" / "cutlass_sm80.svg").read_bytes()


def test_no_such_format(tcsim: Tcsim) -> None:
    code, out, err = tcsim("layout", "--metadata-format", "cutlass.sm70")
    assert (code, out) == (1, "")
    assert "there is no metadata format 'cutlass.sm70'; legal: codes" in err
    assert tcsim("layout", "--metadata-format", "marlin", "--type", "s8")[0] == 1


def test_chunks_of_zeros_as_cutlass_compresses_them(tcsim: Tcsim, tmp_path: Path) -> None:
    """0b0000 and two stored zeros; a 0b0000 beside a value means nothing."""
    dense = sparselt.prune(np.random.default_rng(2).standard_normal((128, 128)), "f16", "strip")
    dense[5:9, 8:24] = 0
    np.save(tmp_path / "d.npy", dense)
    pair, back = tmp_path / "p.npz", tmp_path / "b.npy"
    how = ["--type", "f16"]
    assert (
        tcsim("convert", tmp_path / "d.npy", "--from", "dense", "--to", "pair:cutlass.sm100", *how, "--output", pair)[0]
        == 0
    )
    with np.load(pair) as read:
        values, meta = read["values"], read["meta"]
    layout = metadata_format("cutlass.sm100", "f16")
    codes = layout.load(meta, 128, 32)
    codes[5:9, 2:6] = 0
    np.savez(pair, values=values, meta=layout.store(codes))
    code, _, err = tcsim("convert", pair, "--from", "pair:cutlass.sm100", "--to", "dense", *how, "--output", back)
    assert (code, err.count("\n")) == (0, 1)
    assert "16 of 4,096 codes are 0b0000" in err
    assert "written as 0b1110" in err
    assert np.array_equal(np.load(back), dense)
    codes[0, 0] = 0
    np.savez(pair, values=values, meta=layout.store(codes))
    code, _, err = tcsim("convert", pair, "--from", "pair:cutlass.sm100", "--to", "dense", *how, "--output", back)
    assert code == 2
    assert "row 0, chunk 0" in err.splitlines()[-1]
