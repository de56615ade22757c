"""Statistics of whole files of results: runs that stop, comparisons, rates, weights, pictures, memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from simulator.faults import read_results
from simulator.faults.outcomes import OUTCOMES
from simulator.faults.run import run_list
from simulator.faults.sequential import Order, Until
from simulator.faults.table import read_blocks, read_head
from simulator.statistics import finite_wilson
from simulator.statistics.designs import Sums, estimated, stratified
from simulator.studies.faults.compare import ALL, compare
from simulator.studies.faults.summary import summarise
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
CAMPAIGN = """
[campaign]
seed = 3
[subject]
opcode = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"
cases = 4
[[faults]]
site = "c"
kind = "flip"
[[faults]]
site = "e"
kind = "flips"
count = 3000
[[faults]]
site = "selector"
kind = "selector"
"""
MARGIN = 0.0095


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list, its results under two policies, and those of a run that stopped."""
    from simulator.cli.main import main

    folder = tmp_path_factory.mktemp("campaign")
    (folder / "c.toml").write_text(CAMPAIGN)
    for arguments in (
        ("list", folder / "c.toml", "--output", folder / "list.csv"),
        ("run", folder / "list.csv", "--output", folder / "a.csv", "--tolerate", "max_rel < 1e-3"),
        ("run", folder / "list.csv", "--output", folder / "b.csv", "--policy", "saturate"),
        ("run", folder / "list.csv", "--output", folder / "stopped.csv", "--until-margin", str(MARGIN)),
    ):
        assert main(["faults", *map(str, arguments)]) == 0
    return folder


# Runs that stop


def test_a_run_stops_where_intervals_are_narrow(campaign: Path) -> None:
    stopped, whole = read_results(campaign / "stopped.csv"), read_results(campaign / "a.csv")
    about = read_head(campaign / "list.csv").about
    assert stopped.attrs["injected"] == f"{len(stopped)} of {len(whole)}"
    assert stopped.attrs["until"] == f"a margin of {MARGIN} at 0.95"
    assert len(stopped) < len(whole) / 2
    assert stopped["id"].is_monotonic_increasing
    both = whole.drop(columns="judged").set_index("id").loc[stopped["id"]].reset_index()
    assert both[stopped.columns.drop("judged")].equals(stopped.drop(columns="judged"))
    populations = [group["population"] for group in json.loads(about["groups"])]
    for number, mine in stopped.groupby("group"):
        every = whole[whole["group"] == number]
        if len(mine) == len(every):
            continue
        for outcome in OUTCOMES:
            ends = finite_wilson(int((mine["outcome"] == outcome).sum()), len(mine), populations[number])
            assert ends[1] - ends[0] <= 2 * MARGIN
        assert abs(np.corrcoef(np.arange(len(mine)), mine["id"])[0, 1]) > 0.99  # from all over the group
        assert mine["id"].min() < every["id"].quantile(0.02)
        assert mine["id"].max() > every["id"].quantile(0.98)


def test_it_stops_at_the_same_fault_with_any_workers_and_after_a_kill(campaign: Path, tmp_path: Path) -> None:
    found, until, output = read_head(campaign / "list.csv"), Until(MARGIN), tmp_path / "r.csv"
    ran = run_list(found, output, until=until, workers=2)
    assert output.read_bytes() == (campaign / "stopped.csv").read_bytes()
    assert ran.injected == int(read_head_of(output)["faults"])

    class KilledError(Exception):
        pass

    def kill(done: int, count: int, what: str) -> None:
        if done >= 4096 and done < count:
            raise KilledError

    other = tmp_path / "k.csv"
    with pytest.raises(KilledError):
        run_list(found, other, until=until, progress=kill)
    with pytest.raises(Exception, match="another run"):
        run_list(found, other, until=Until(MARGIN / 2))
    assert run_list(found, other, until=until).resumed > 0
    assert other.read_bytes() == output.read_bytes()
    small = tmp_path / "whole.csv"  # a margin that nothing reaches: all is injected, in the order of the list
    assert run_list(found, small, until=Until(1e-9)).injected == found.rows
    assert read_results(small)["id"].tolist() == list(range(found.rows))


def read_head_of(path: Path) -> dict[str, str]:
    lines = (line[2:].rstrip("\n").partition(": ") for line in path.open() if line.startswith("# "))
    return {name: value for name, _, value in lines}


def test_the_order_is_a_permutation_of_each_group(campaign: Path) -> None:
    found = read_head(campaign / "list.csv")
    order = Order.of(found, Until(0.1))
    assert np.sort(order.places).tolist() == list(range(found.rows))
    groups = np.concatenate([block["group"] for block in read_blocks(found)])
    first = groups[order.places[:300]]
    assert np.bincount(first).tolist()[:2] == [(300 - 12) // 2] * 2  # in turn, until the small group is at its end
    assert (
        order.read(range(40, 90)).tolist()
        == np.concatenate(list(read_blocks(found)))[np.sort(order.places[40:90])].tolist()
    )


def test_what_cannot_stop_is_refused(campaign: Path, tmp_path: Path, tcsim: Tcsim) -> None:
    text = (campaign / "list.csv").read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(text) if line[0].isdigit())
    for cell, output in (("9", "9.csv"), ("x", "x.csv")):
        cells = text[first + 5].split(",")
        broken = [*text[: first + 5], ",".join([cells[0], cell, *cells[2:]]), *text[first + 6 :]]
        (tmp_path / "l.csv").write_text("".join(broken))
        for how in (["--until-margin", "0.1"], []):
            code, _, said = tcsim("faults", "run", tmp_path / "l.csv", "--output", tmp_path / output, *how)
            assert (code, said.count("\n")) == (2, 1)
            assert f"group is {cell}" in said.replace("'", "")
            assert f":{first + 6}:" in said
            assert not list(tmp_path.glob(f"{output}.parts/*.csv"))
    for wrong in (["--confidence", "0.9"], ["--tolerate", " "]):
        code, _, said = tcsim("faults", "run", campaign / "list.csv", "--output", tmp_path / "r.csv", *wrong)
        assert (code, said.count("\n")) == (2, 1)
    for margin in ("0", "1", "x"):
        assert (
            tcsim("faults", "run", campaign / "list.csv", "--output", tmp_path / "r.csv", "--until-margin", margin)[0]
            == 2
        )


# Comparisons


def test_runs_of_one_list_are_compared_fault_by_fault(campaign: Path, tcsim: Tcsim) -> None:
    found = compare(campaign / "a.csv", campaign / "b.csv")
    assert found.paired
    a, b = read_results(campaign / "a.csv"), read_results(campaign / "b.csv")
    seen = {(line.group, line.outcome): line for line in found.lines}
    for number, name in enumerate(["c flip", "e flips", "selector selector"]):
        one, two = (frame.loc[frame["group"] == number, "outcome"].to_numpy() for frame in (a, b))
        for outcome in OUTCOMES:
            first, second = one == outcome, two == outcome
            if not (first.any() or second.any()):
                assert (name, outcome) not in seen
                continue
            line = seen[name, outcome]
            only = int((first & ~second).sum()), int((second & ~first).sum())
            p = stats.binomtest(only[0], sum(only)).pvalue if sum(only) else 1.0
            assert line.test.p == pytest.approx(p, rel=1e-6)
            assert line.effect is not None
            assert line.effect.difference == pytest.approx(second.mean() - first.mean())
    assert (seen["e flips", "masked"].test.name, seen["e flips", ALL].test.name) == ("mcnemar", "stuart-maxwell")
    assert max(line.holm >= line.test.p for line in found.lines)
    for format, begins in (("table", "A: "), ("markdown", "A: "), ("csv", "group,"), ("json", "{")):
        code, out, _ = tcsim("faults", "compare", campaign / "a.csv", campaign / "b.csv", "--format", format)
        assert (code, out.startswith(begins)) == (0, True)
    assert [row["group"] for row in json.loads(out)["comparisons"]] == [line.group for line in found.lines]
    part = compare(campaign / "stopped.csv", campaign / "b.csv")  # the faults that both have
    assert {line.faults[0] for line in part.lines} == set(
        read_results(campaign / "stopped.csv")["group"].value_counts()
    )


def test_other_lists_are_compared_as_samples(campaign: Path, tmp_path: Path, tcsim: Tcsim) -> None:
    text = (campaign / "b.csv").read_text().replace("# list_sha256: ", "# list_sha256: 0")
    (tmp_path / "b.csv").write_text(text)
    found = compare(campaign / "a.csv", tmp_path / "b.csv", 0.9)
    assert not found.paired
    a, b = read_results(campaign / "a.csv"), read_results(campaign / "b.csv")
    for line in found.lines:
        number = ["c flip", "e flips", "selector selector"].index(line.group)
        one, two = (frame.loc[frame["group"] == number] for frame in (a, b))
        if line.outcome == ALL:
            table = pd.DataFrame({"a": one["outcome"].value_counts(), "b": two["outcome"].value_counts()}).fillna(0)
        elif line.outcome == "critical":
            continue
        else:
            hits = [int((frame["outcome"] == line.outcome).sum()) for frame in (one, two)]
            table = pd.DataFrame({"a": [hits[0], len(one) - hits[0]], "b": [hits[1], len(two) - hits[1]]})
        table = table[(table > 0).any(axis=1)]
        if line.test.name == "chi-square":
            assert line.test.p == pytest.approx(stats.chi2_contingency(table.to_numpy(), correction=False).pvalue)
        elif line.test.name == "fisher":
            assert line.test.p == pytest.approx(stats.fisher_exact(table.to_numpy()).pvalue)
    assert {line.test.name for line in found.lines} == {"chi-square", "fisher"}
    (tmp_path / "x.csv").write_text(text.replace('"name": "', '"name": "other '))
    code, _, said = tcsim("faults", "compare", campaign / "a.csv", tmp_path / "x.csv")
    assert (code, said.count("\n"), "no group" in said) == (2, 1, True)


# Weights, strata, sets of operands, rates


@pytest.mark.parametrize("verb", ["compare", "report"])
@pytest.mark.parametrize(("change", "words"), [("empty", "has no faults"), ("outcome", "outcome 'sdd'")])
def test_results_that_are_none(verb: str, change: str, words: str, tmp_path: Path, tcsim: Tcsim) -> None:
    golden, damaged = GOLDEN / "fault_results" / "hardware.csv", tmp_path / "d.csv"
    lines = golden.read_text().splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("id,")) + 1
    if change == "empty":
        lines = ["# faults: 0" if line.startswith("# faults:") else line for line in lines[:head]]
    else:
        lines[head] = lines[head].replace(",sdc,", ",sdd,").replace(",masked,", ",sdd,")
    damaged.write_text("\n".join([*lines, ""]))
    code, out, said = tcsim("faults", verb, damaged, *[golden] * (verb == "compare"))
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert "d.csv: " in said
    assert words in said


def _weighted(path: Path, output: Path) -> Any:
    """Results with a column of weights behind that of `until`."""
    rng, lines = np.random.default_rng(4), []
    for line in path.open():
        if line.startswith("#"):
            lines.append(line)
            continue
        cells = line.split(",")
        cells.insert(15, "weight" if cells[0] == "id" else str(rng.choice([0.5, 2.0, 8.0])))
        lines.append(",".join(cells))
    output.write_text("".join(lines))
    return read_results(output)


def test_weights_are_in_every_total(campaign: Path, tmp_path: Path, tcsim: Tcsim) -> None:
    frame = _weighted(campaign / "a.csv", tmp_path / "w.csv")
    assert frame["weight"].nunique() == 3
    summary = summarise(tmp_path / "w.csv")
    for number, counts in enumerate(summary.groups):
        mine = frame[frame["group"] == number]
        hit = mine["outcome"] == "sdc"
        should = estimated(Sums.of(hit.to_numpy(), mine["weight"].to_numpy()), counts.population)
        assert counts.share("sdc") == pytest.approx(should[:3])
        assert counts["sdc"] == hit.sum()
        harmful = mine[mine["outcome"] != "masked"]
        seen = harmful["detectors"].str.contains("ordered")
        found = counts.tallies[0].coverage("ordered")
        assert found is not None
        assert found.share == pytest.approx(np.average(seen, weights=harmful["weight"]))
    assert "weights of the faults" in tcsim("faults", "report", tmp_path / "w.csv")[1]
    paired = compare(tmp_path / "w.csv", tmp_path / "w.csv")
    assert {line.test.p for line in paired.lines} == {1.0}
    text = (tmp_path / "w.csv").read_text()
    (tmp_path / "v.csv").write_text(text.replace("# list_sha256: ", "# list_sha256: 0"))
    assert all(line.test.p > 0.999 for line in compare(tmp_path / "w.csv", tmp_path / "v.csv").lines)
    (tmp_path / "n.csv").write_text(text.replace(",-1,-1,0.5,", ",-1,-1,-0.5,", 1))
    code, _, said = tcsim("faults", "report", tmp_path / "n.csv")
    assert (code, "weight" in said, said.count("\n")) == (2, True, 1)


def test_reports_of_designs(campaign: Path, tcsim: Tcsim) -> None:
    frame, summary = read_results(campaign / "stopped.csv"), summarise(campaign / "stopped.csv")
    hits = [(mine["outcome"] == "sdc").to_numpy() for _, mine in frame.groupby("group")]
    populations = [counts.population for counts in summary.groups]
    assert summary.total.share("sdc") == pytest.approx(stratified([Sums.of(each) for each in hits], populations)[:3])
    c = summary.groups[0].estimate("sdc", by_case=True)
    by_case = frame[frame["group"] == 0].groupby("case")["outcome"].agg(lambda rows: (rows == "sdc").mean())
    sizes = frame[frame["group"] == 0].groupby("case").size()
    left = ((by_case - c.share) * sizes) ** 2
    variance = 4 / 3 * left.sum() / sizes.sum() ** 2
    assert c.share * (1 - c.share) / c.size == pytest.approx(variance)
    code, out, _ = tcsim(
        "faults", "report", campaign / "a.csv", "--by-case", "--fit-per-bit", "1e-4", "--confidence", "0.9"
    )
    assert code == 0
    assert "design effect" in out
    code, out, _ = tcsim("faults", "report", campaign / "a.csv", "--fit-per-bit", "1e-4", "--format", "json")
    fit = {(row["group"], row["outcome"]): row for row in json.loads(out)["fit"]}
    share = summarise(campaign / "a.csv").groups[0].share("sdc")[0]
    assert fit["c flip", "sdc"]["bits"] == 16 * 8 * 32  # each bit of C once, not once for each set of operands
    assert fit["c flip", "sdc"]["fit"] == pytest.approx(16 * 8 * 32 * 1e-4 * share)
    assert {group for group, _ in fit} == {"c flip"}
    assert tcsim("faults", "report", campaign / "a.csv", "--fit-per-bit", "-1")[0] == 2


# Pictures


@pytest.mark.parametrize(
    "options",
    [
        ("--kind", "outcomes"),
        ("--kind", "outcomes", "--by", "site"),
        ("--kind", "outcomes", "--by", "bit"),
        ("--kind", "heatmap"),
        ("--kind", "heatmap", "--by", "row-column", "--group", "e flips"),
        ("--kind", "coverage", "--cost", "COST"),
    ],
)
def test_pictures(campaign: Path, tmp_path: Path, tcsim: Tcsim, options: tuple[str, ...]) -> None:
    cost, picture = tmp_path / "cost.csv", tmp_path / "f.svg"
    cost.write_text("detector,overhead\nlegality,7%\nabft,0.14\nsecded,0\n")
    given = [str(cost) if each == "COST" else each for each in options]
    files = [campaign / "stopped.csv"]
    if "heatmap" not in options:
        files.append(tmp_path / "other.csv")
        files[1].write_bytes(files[0].read_bytes())
    code, _, said = tcsim("faults", "plot", *files, "--output", picture, *given)
    assert code == 0, said
    text = picture.read_text()
    if options == ("--kind", "heatmap"):
        assert tcsim("faults", "plot", *files, "--output", tmp_path / "g.svg", *given)[0] == 0
        assert (tmp_path / "g.svg").read_text() == text
    words = {"outcomes": "silent corruption", "heatmap": "share:", "coverage": "legality (7.0%)"}[options[1]]
    assert words in text


def test_pictures_that_cannot_be(campaign: Path, tmp_path: Path, tcsim: Tcsim) -> None:
    (tmp_path / "cost.csv").write_text("detector,overhead\nlegalty,7%\n")
    for options, words in (
        (("--output", "f.gif"), "says its format"),
        (("--output", tmp_path / "f.svg", "--group", "c flp"), "did you mean 'c flip'"),
        (("--output", tmp_path / "f.svg", "--kind", "heatmap", "--by", "bit"), "lane-bit"),
        (("--output", tmp_path / "f.svg", "--kind", "coverage", "--cost", tmp_path / "cost.csv"), "'legality'"),
        (("--output", tmp_path / "f.svg", "--by", "bit", "--group", "selector selector"), "single bits"),
    ):
        code, out, said = tcsim("faults", "plot", campaign / "a.csv", *options)
        assert (code, out, said.count("\n")) == (2, "", 1), said
        assert words in said
    assert not (tmp_path / "f.svg").exists()


PEAK = """
import re, runpy, sys
sys.argv = ["tcsim", "faults", "report", sys.argv[1]]
try:
    runpy.run_module("simulator", run_name="__main__")
except SystemExit as end:
    assert not end.code
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""
"""A report, and the most memory in KiB that this program itself has held: what waits tell counts its parent's, too."""


@pytest.mark.exhaustive
def test_long_files_take_no_memory(campaign: Path, tmp_path: Path) -> None:
    """A million rows: as much memory as a hundred thousand, and far below what ten million may take."""
    lines = (campaign / "b.csv").read_text().splitlines(keepends=True)
    body, peaks = [line.split(",", 1)[1] for line in lines if line[0].isdigit()], []
    for count in (100_000, 1_000_000):
        path = tmp_path / f"{count}.csv"
        with path.open("w") as stream:
            head = (line for line in lines if not line[0].isdigit())
            stream.writelines(f"# faults: {count}\n" if line.startswith("# faults:") else line for line in head)
            stream.writelines(f"{number},{body[number % len(body)]}" for number in range(count))
        command = [sys.executable, "-c", PEAK, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stderr) / 1024)
    assert peaks[1] < 300
    assert peaks[1] - peaks[0] < 60
