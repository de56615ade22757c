"""Faults in 2:4 layers of networks: the layer against numpy's product, each site against faults made by hand, classes
against the whole network run again, and what the command says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator
from isa.errors import IsaError
from simulator.applications.digits import Classifier, simulated_layers, stored_arrays
from simulator.arithmetic import product
from simulator.cli import faults_claims, faults_networks
from simulator.errors import ViewError
from simulator.faults.outcomes import DUE
from simulator.resources import folder
from simulator.studies.faults.claims.report import CLAIMS
from simulator.studies.faults.networks import (
    NETWORKS,
    NumpySubject,
    campaign,
    digit_images,
    network,
    sites,
    sparse_layer,
)
from simulator.studies.faults.networks.faults import checked, one_fault
from simulator.studies.faults.networks.injection import Campaign
from simulator.studies.faults.networks.number_types import TYPES
from simulator.studies.sparselt import from_torch

Tcsim = Callable[..., tuple[int, str, str]]
IMAGES = 24
EVERY_SITE = ("values", "metadata", "activations", "selector", "accumulator", "d")
ACCURACY = {"digits_mlp": 376, "digits_cnn": 379, "digits_transformer": 378}  # of 384: docs/faults_networks.md


def weights(rows: int, columns: int, seed: int = 0) -> Any:
    """Random 2:4 weights [row, column]."""
    draws = np.random.default_rng(seed)
    dense = draws.standard_normal((rows, columns))
    kept = np.argsort(draws.random((rows, columns // 4, 4)), axis=-1) < 2
    return dense * kept.reshape(rows, columns)


def of(name: str, layer: str, type: str = "f16", images: int = IMAGES) -> Campaign:
    given = digit_images(images)
    return campaign(NumpySubject(network(name), given.images, given.labels), layer, type=type)


# Layers


@pytest.mark.parametrize("storage", ["cusparselt", "torch", "cutlass.sm80"])
@pytest.mark.parametrize("type", ["f16", "bf16", "s8", "e4m3"])
def test_a_layer_is_numpys_product_of_its_stored_weights(type: str, storage: str) -> None:
    """Rows and inputs that fill no tile; e4m3 is added with few bits on Hopper, so its distance is larger."""
    if (type, storage) == ("e4m3", "torch"):
        with pytest.raises(IsaError, match="e4m3"):
            sparse_layer("fc", weights(24, 36), type=type, storage=storage)
        return
    draws = np.random.default_rng(1)
    weight, bias, x = weights(24, 36), draws.standard_normal(24), draws.standard_normal((5, 7, 36))
    layer = sparse_layer("fc", weight, bias, type=type, largest_input=float(np.abs(x).max()), storage=storage)
    assert np.abs(layer.dense - weight).max() <= np.abs(weight).max() * {"f16": 2**-11, "bf16": 2**-8}.get(type, 2**-4)
    read = layer.kind.numbers(layer.operand(x))[:36].T.reshape(5, 7, 36) * layer.input_scale
    exact = read @ layer.dense.T + layer.bias
    assert np.abs(layer.computed(x) - exact).max() < {"e4m3": 0.02}.get(type, 2e-5)


def test_sums_are_those_of_a_chain_of_instructions() -> None:
    one = of("digits_mlp", "fc2")
    layer, running = one.layer, one.running
    sums = np.zeros((1, layer.rows, running.columns), np.uint32)
    for step in range(layer.steps):
        a, e = layer.values[None, :, 16 * step : 16 * step + 16], layer.codes[None, :, 8 * step : 8 * step + 8]
        b = running.b[None, 32 * step : 32 * step + 32]
        sums = product(
            np.ascontiguousarray(a), np.ascontiguousarray(b), sums, family="mma", target="sm_90a", a_type="f16",
            b_type="f16", d_type="f32", codes=np.ascontiguousarray(e),
        )  # fmt: skip
    assert (sums[0] == running.d).all()


def test_torch_storage_is_pytorchs() -> None:
    weight = weights(32, 64)
    layer = sparse_layer("fc", weight, storage="torch")
    meta = layer.words.astype(np.uint16).view(np.int16).reshape(32, -1)
    back = from_torch(layer.values.astype(np.uint16), meta, "f16")
    assert (back.view(np.float16) == weight.astype(np.float16)).all()


def test_layers_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(IsaError, match="layer fc are not 2:4"):
        sparse_layer("fc", np.ones((8, 8)))
    assert sparse_layer("fc", np.ones((8, 8)), pruned=False).numbers.sum() == 32
    with pytest.raises(IsaError, match="shape"):
        sparse_layer("fc", np.ones(8))
    with pytest.raises(IsaError, match="storage"):
        sparse_layer("fc", weights(8, 8), storage="csr")
    with pytest.raises(ViewError, match="f17"):
        sparse_layer("fc", weights(8, 8), type="f17")
    with pytest.raises(IsaError, match="sm_75"):
        sparse_layer("fc", weights(8, 8), target="sm_75")


# Faults


def by_hand(one: Campaign, site: str, fault: Any) -> Any:
    """D in exact numbers [row, column], with one fault made by hand in operands, and added up in float64."""
    layer, running = one.layer, one.running
    word, mask = int(fault["word"]), np.uint32(fault["mask"])
    values, words, b = layer.values.copy(), layer.words.copy(), running.b.copy()
    if site == "values":
        values.reshape(-1)[word] ^= mask
    if site == "metadata":
        words[word] ^= mask
    if site == "activations":
        b[word % layer.k, word // layer.k] ^= mask
    shape, dtype = layer.layout.shape(*layer.codes.shape), layer.layout.dtype
    codes = layer.layout.load(words.astype(dtype).reshape(shape), *layer.codes.shape)
    left, right = layer.kind.numbers(values), layer.kind.numbers(b)
    total = np.zeros((len(values), b.shape[1]))
    for stored in range(values.shape[1]):
        column = 4 * (stored // 2) + (codes[:, stored // 2] >> (2 * (stored % 2)) & 3)
        total += left[:, stored, None] * right[column]
    return total[: layer.rows]


@pytest.mark.parametrize("site", ["values", "metadata", "activations"])
def test_faults_in_operands_are_those_made_by_hand(site: str) -> None:
    """s8 adds up exactly, so every element of D must be the same; among the codes are undefined ones."""
    one = of("digits_cnn", "fc1", "s8")
    faults = one.draw(site, 12, seed=5).faults
    got = np.repeat(one.running.d[None], len(faults), axis=0)
    for changes in one.changes(site, faults):
        assert (got[changes.fault, changes.row, changes.column] != changes.word).all()
        got[changes.fault, changes.row, changes.column] = changes.word
    for index, fault in enumerate(faults):
        assert (got[index].view(np.int32) == by_hand(one, site, fault)).all()


def test_a_selector_reads_metadata_of_another_step_or_stops_the_chip() -> None:
    one = of("digits_mlp", "fc2")
    layer, running = one.layer, one.running
    _, wide, steps = running.tiles
    assert running.tiles == (8, IMAGES // 8, 4)
    word = (5 * wide + 1) * steps + 2  # rows 80 to 95, columns 8 to 15, step 2: its register serves steps 2 and 3
    codes = layer.codes.copy()
    codes[80:96, 16:24] = codes[80:96, 24:32]
    expected = running.d.copy()
    expected[80:96, 8:16] = layer.chain.product(layer.values, codes, running.b)[80:96, 8:16]
    got = running.d.copy()
    for changes in one.changes("selector", one_fault("selector", word, bit=0)):
        got[changes.row, changes.column] = changes.word
    assert (got == expected).all()
    assert (got != running.d).sum() > 100
    stopped = one.run("selector", one_fault("selector", word, bit=1))
    assert stopped["outcome"][0] == DUE


def test_an_accumulator_carries_its_fault_on() -> None:
    """Of s8 a bit that is flipped between two instructions is the same bit's worth in D, whatever comes after."""
    one = of("digits_cnn", "fc1", "s8")
    faults = one.draw("accumulator", 40, seed=2).faults
    site, running = sites.SITES["accumulator"], one.running
    before = site.read(running, faults["word"].astype(np.int64))
    place, step = np.divmod(faults["word"].astype(np.int64), one.layer.steps)
    column, row = np.divmod(place, one.layer.rows)
    assert (before[step == 0] == 0).all()
    flipped = np.where(before & faults["mask"], -faults["mask"].astype(np.int64), faults["mask"].astype(np.int64))
    changes = list(one.changes("accumulator", faults))
    words = np.concatenate([part.word for part in changes])
    assert np.concatenate([part.fault for part in changes]).tolist() == list(range(40))
    assert (words == (running.d[row, column].astype(np.int64) + flipped).astype(np.uint32)).all()


@pytest.mark.parametrize(
    ("name", "layer", "type"), [("digits_cnn", "conv2", "f16"), ("digits_transformer", "block0.proj", "e4m3")]
)
def test_outcomes_are_those_of_the_whole_network_run_again(name: str, layer: str, type: str) -> None:
    one = of(name, layer, type)
    subject = one.subject
    assert isinstance(subject, NumpySubject)
    for site in EVERY_SITE:
        faults = one.draw(site, 8, seed=3, model="word").faults
        results = one.run(site, faults)
        got = np.repeat(one.running.d[None], len(faults), axis=0)
        for changes in one.changes(site, faults):
            got[changes.fault, changes.row, changes.column] = changes.word
        beside = {value: subject.values[value] for value in subject.network.needed(layer)}
        shape = subject.values[subject.network.layer(layer).result].shape
        for index, row in enumerate(results):
            scores = subject.network.after(layer, one.layer.outputs(got[index]).T.reshape(shape), beside)
            classes = scores.argmax(axis=1)
            assert row["classes"] == (classes != one.classes).sum()
            assert row["correct"] == (classes == subject.labels).sum()
            assert row["elements"] == (got[index] != one.running.d).sum()


def test_results_do_not_depend_on_what_is_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    one = of("digits_mlp", "fc2")
    drawn = {site: one.draw(site, 30, seed=7, bits=2) for site in EVERY_SITE}
    whole = {site: one.run(site, faults.faults) for site, faults in drawn.items()}
    monkeypatch.setattr(sites, "_TOGETHER", 200)
    for site, faults in drawn.items():
        again = one.run(site, faults.faults)
        for field in ("outcome", "elements", "nonfinite", "images", "classes", "correct"):
            assert (again[field] == whole[site][field]).all(), (site, field)


def test_populations_have_each_bit_once() -> None:
    one = of("digits_mlp", "fc2")
    drawn = one.draw("metadata")
    assert drawn.population == len(drawn.faults) == 128 * 32 * 4  # rows, chunks, bits of a code
    assert len({(int(w), int(m)) for w, m in zip(drawn.faults["word"], drawn.faults["mask"], strict=True)}) == 16384
    sample = one.draw("values", 100, seed=4, bits=3)
    assert sample.population == 128 * 64 * 14
    assert (np.bitwise_count(sample.faults["mask"]) == 3).all()
    assert (sample.faults == one.draw("values", 100, seed=4, bits=3).faults).all()
    stuck = one.draw("values", 400, seed=4, model="stuck0")
    assert set(one.run("values", stuck.faults)["outcome"]) == {0, 1}  # half of the bits are 0 as they are


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"name": "weights"}, "values"),
        ({"name": "values", "model": "lane"}, "flip, stuck0"),
        ({"name": "values", "bits": 17}, "1 to 16"),
        ({"name": "d", "count": 0}, "1 to"),
        ({"name": "d", "seed": -1}, "seed -1"),
    ],
)
def test_populations_that_there_are_not(asked: dict[str, Any], words: str) -> None:
    one = of("digits_mlp", "fc2")
    with pytest.raises(ViewError, match=words):
        one.draw(asked.pop("name"), **asked)


def test_single_faults_that_a_layer_does_not_have() -> None:
    layer = of("digits_mlp", "fc2").layer
    with pytest.raises(ViewError, match="0 to 8,191"):
        checked(layer, one_fault("values", 8192))
    with pytest.raises(ViewError, match="16 bits"):
        checked(layer, one_fault("values", 0, bit=16))
    with pytest.raises(ViewError, match="one row"):
        checked(layer, np.repeat(one_fault("values", 0), 2))
    one = of("digits_mlp", "fc2")
    with pytest.raises(ViewError, match="'e', of metadata"):
        one.run("metadata", one.draw("values", 3).faults)
    with pytest.raises(ViewError, match="word 8,192 of values"):
        one.run("values", one_fault("values", 8192))


# Networks


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_ship(name: str) -> None:
    given, one = digit_images(), network(name)
    assert (one.scores(given.images).argmax(axis=1) == given.labels).sum() == ACCURACY[name]
    for layer in NETWORKS[name].sparse:
        chunks = (one.layer(layer).weight != 0).reshape(len(one.layer(layer).weight), -1, 4)
        assert chunks.sum(axis=-1).max() == 2
        assert of(name, layer, "s8").accuracy > 0.9
    data = folder("networks") / f"{name}.npz"
    assert not data.exists() or data.stat().st_size < 200_000


def test_the_hidden_layer_is_that_of_the_digits_traces() -> None:
    """The trace computes the same products with bias as C, from activations that were rounded from float64."""
    report = simulator.run("digits/bf16", arithmetic="chip")
    classifier = Classifier("bf16")
    one = of("digits_mlp", "fc2", "bf16", images=384)
    (layer,) = simulated_layers(classifier.plan, stored_arrays(report.arrays, classifier.plan), classifier.data)
    assert np.abs(layer - one.outputs[:, 0].T).max() < 1e-4
    assert (classifier.digits(report.arrays) == one.classes).all()


def test_names_that_are_none() -> None:
    with pytest.raises(ViewError, match="digits_cnn"):
        network("digits_cn")
    with pytest.raises(ViewError, match="did you mean 'fc1'"):
        network("digits_cnn").layer("fc11")
    with pytest.raises(ViewError, match="384"):
        digit_images(385)


# The command


def test_the_table_says_which_site_costs_most(tcsim: Tcsim, tmp_path: Path) -> None:
    base = ["faults", "network", "digits_cnn", "--layer", "fc1", "--images", "64", "--type", "f16", "--faults", "200"]
    code, out, _ = tcsim(*base, "--format", "json", "--rows", tmp_path / "rows.csv")
    rows = {row["site"]: row for row in json.loads(out)}
    assert code == 0
    assert tuple(rows) == EVERY_SITE
    assert max(rows.values(), key=lambda row: row["loss_mean_points"])["site"] == "values"
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0].startswith("layer,type,site,id,model,word,mask")
    assert len(lines) == 1 + 6 * 200
    code, out, _ = tcsim(*base, "--site", "values", "--by-bit")
    assert "\nmost accuracy, on the mean: fc1, f16, values, bit 14: " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("digits_cnn", "--layer", "fc9"), "no layer 'fc9'"),
        (("digits_cnn", "--layer", "fc2", "--site", "d"), "not 2:4"),
        (("digits_mlp", "--site", "values", "--bits", "99"), "1 to 16"),
        (("digits_mlp", "--target", "sm_70", "--site", "d"), "sm_80"),
        (("digits_mlp", "--seed", "-1", "--site", "d"), "seed -1"),
        (("digits_mlp", "--images", "999"), "384"),
    ],
)
def test_what_the_command_refuses(tcsim: Tcsim, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = tcsim("faults", "network", *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_the_command_offers_what_there_is() -> None:
    """The parser names networks, sites and types without loading them."""
    assert tuple(NETWORKS) == faults_networks.NAMES
    assert faults_networks.SITES == tuple(sites.SITES) == EVERY_SITE
    assert tuple(TYPES) == faults_networks.TYPES
    assert tuple(CLAIMS) == faults_claims.NAMES
