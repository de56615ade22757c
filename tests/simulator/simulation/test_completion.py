"""Kernels whose asynchronous operations complete at any legal time: right ones give the same bytes, and a wait or a
fence that is missing is named. Expected values are computed here; the kernels are in tests/ptx/asynchronous.cu."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator
from simulator.check.launches import check_launch
from simulator.errors import IsaError
from simulator.execute.policy import parse_policy
from simulator.program.capture import write_capture
from simulator.simulation.launch.errors import LaunchError
from tests.support.cases import over
from tests.support.paths import ROOT

MODULE = simulator.Module(ROOT / "tests" / "ptx" / "asynchronous.ptx")
MODES = ("earliest", "latest", *(f"seed:{seed}" for seed in range(6)))


def inputs(name: str) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any], int]:
    """The arguments of a kernel, what it should write, and its threads."""
    rng = np.random.default_rng(5)
    if name.startswith("wgmma"):
        a, b = (rng.integers(-8, 8, (rows, 16)).astype(np.float16) for rows in (64, 8))
        expected = a.astype(np.float32) @ b.astype(np.float32).T + 1
        return [a.view(np.uint16), b.view(np.uint16), np.zeros((64, 8), np.float32)], expected, 128
    given = rng.integers(1, 1000, 128).astype(np.int32)
    if name.startswith("store"):
        return [given, given, np.zeros(256, np.int32)], np.concatenate([given + 1, given + 2]), 32
    return [given, given, np.zeros(128, np.int32)], given[::-1], 32


@cache
def kernel(name: str) -> Any:
    """A kernel of the module."""
    return MODULE.get_function(name)


def run(name: str, completion: str) -> tuple[bool, Any]:
    """Whether a kernel gave what it should, and what its completion found."""
    args, expected, threads = inputs(name)
    report = kernel(name)((1,), (threads,), args, completion=completion)
    return bool(np.array_equal(args[-1], expected)), report.completion


@over("name", ("copy", "arrive", "bulk", "store", "wgmma"))
def test_right_kernels_do_not_notice(name: str) -> None:
    assert run(name, "issue") == (True, None)
    for mode in MODES:
        right, found = run(name, mode)
        assert right, mode
        assert found.clean, (mode, found)
        assert found.changed == ()


BUGS = {
    "copy_without_wait": ("async-pending", "cp.async.wait_group", "latest"),
    "arrive_without_wait": ("async-pending", "a wait for its mbarrier", "latest"),
    "bulk_without_wait": ("async-pending", "a wait for its mbarrier", "latest"),
    "bulk_without_expect": ("async-unexpected", "expect_tx", "latest"),
    "store_without_fence": ("async-unfenced", "fence.proxy.async", "earliest"),
    "store_without_wait": ("async-pending", "cp.async.bulk.wait_group.read", "latest"),
    "store_without_commit": ("async-pending", "cp.async.bulk.commit_group", "latest"),
    "wgmma_without_proxy_fence": ("async-unfenced", "fence.proxy.async", "earliest"),
    "wgmma_without_fence": ("wgmma-unfenced", "without wgmma.fence", "earliest"),
    "wgmma_without_commit": ("wgmma-pending", "wgmma.wait_group", "latest"),
    "wgmma_without_wait": ("wgmma-pending", "wgmma.wait_group", "latest"),
}  # fmt: skip


@over("name", tuple(BUGS))
def test_what_is_missing_is_named_whatever_the_moment(name: str) -> None:
    rule, words, mode = BUGS[name]
    assert run(name, "issue") == (True, None)
    results = {each: run(name, each) for each in MODES}
    for each, (right, found) in results.items():
        assert {missing.rule for missing in found.missing} == {rule}, (each, found)
        assert words in found.missing[0].what
        assert right == (not found.changed)
    assert not results[mode][0]
    assert {results[each][0] for each in MODES if each.startswith("seed")} == {False, True}


def test_both_lines_are_named() -> None:
    """The read, and the copy or product that it did not wait for."""
    text = (ROOT / "tests" / "ptx" / "asynchronous.ptx").read_text().splitlines()
    for name, first, then in (
        ("copy_without_wait", "cp.async.cg", "ld.shared"),
        ("bulk_without_expect", "cp.async.bulk", "ld.shared"),
        ("store_without_wait", "cp.async.bulk", "st.shared"),
        ("store_without_fence", "st.shared", "cp.async.bulk"),
        ("wgmma_without_wait", "wgmma.mma_async", "st.global"),
    ):
        missing = run(name, "latest")[1].missing[0]
        earlier = re.search(r"line (\d+)", missing.what)
        assert earlier is not None
        assert first in text[int(earlier[1]) - 1], missing
        assert then in text[missing.line - 1], missing


def test_too_few_bytes_are_a_deadlock_that_says_so() -> None:
    for mode in ("issue", "latest", "seed:1"):
        with pytest.raises(LaunchError, match="lacks an expect_tx of 256 bytes"):
            run("bulk_with_fewer", mode)


def test_check_names_them_too(tmp_path: Path) -> None:
    for name, rule in (("bulk", None), ("wgmma", None), ("store_without_fence", "async-unfenced"),
                       ("bulk_without_wait", "async-pending"), ("wgmma_without_proxy_fence", "async-unfenced"),
                       ("store_without_wait", "async-pending")):  # fmt: skip
        args, expected, threads = inputs(name)
        before = {"a": args[0], "b": args[1], "d": args[2]}
        path = tmp_path / f"{name}.json"
        write_capture(
            path, (ROOT / "tests" / "ptx" / "asynchronous.ptx").read_text(), name, (1, 1, 1), (threads, 1, 1),
            [{"buffer": each} for each in before], before, {"d": expected.astype(args[2].dtype)}, target="sm_90a",
        )  # fmt: skip
        found = check_launch(path)
        assert {finding.rule for finding in found.findings if finding.serious} - {"shared-memory-race"} == (
            {rule} if rule else set()
        ), (name, found)


def test_correct_kernels_of_compilers_do_not_notice() -> None:
    for name, modes in (("direct_one_warp", MODES[:3]), ("f16_one_cta", ("latest",)), ("wgmma_tf32", ("seed:1",))):
        for mode in modes:
            report = simulator.launch(ROOT / "tests" / "golden" / "launches" / f"{name}.json", completion=mode)
            assert report.differences == (), (name, mode)
            assert report.completion is not None
            assert report.completion.clean, (name, mode, report.completion)


def test_a_policy_is_one_of_four() -> None:
    assert str(parse_policy("seed:7")) == "seed:7"
    for wrong in ("", "soon", "seed", "seed:", "seed:-1", "seed:x", "latest:1", "seed:99999999999999999999", 7):
        with pytest.raises(IsaError, match="completion="):
            parse_policy(wrong)
    with pytest.raises(IsaError, match="seed:N"):
        run("copy", "late")


def test_command(tcsim: Callable[..., tuple[int, str, str]]) -> None:
    ptx = str(ROOT / "tests" / "ptx" / "asynchronous.ptx")
    how = ("--grid", "1", "--block", "32", "--arg", "out:int32:128", "--arg", "out:int32:128", "--arg", "out:int32:128")
    code, out, _ = tcsim("launch", ptx, "--entry", "copy", *how, "--completion", "latest")
    assert (code, "latest: nothing is missing, every byte as with completion at issue" in out) == (0, True)
    code, out, _ = tcsim("launch", ptx, "--entry", "copy_without_wait", *how, "--completion", "latest")
    assert (code, "async-pending" in out) == (1, True)
    for verb in (("launch", ptx), ("exec",)):
        code, _, err = tcsim(*verb, "--completion", "soon", *(("--", "true") if verb == ("exec",) else how))
        assert (code, "legal: issue, earliest, latest, or seed:N" in err) == (2, True)
