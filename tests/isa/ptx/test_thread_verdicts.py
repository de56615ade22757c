"""What ptxas 13.0 says about texts of every family but matrix instructions, and of those that came with Hopper: the
decoder agrees wherever the verdict counts."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.golden.compare_ptxas import hopper_verdicts, judged_threads, thread_verdicts


def _wrong(step: int) -> list[str]:
    """Texts on which the decoder disagrees with ptxas."""
    return [
        text for tried in judged_threads(thread_verdicts()[::step]).values() for text in (*tried.lax, *tried.strict)
    ]


def test_a_sample_of_the_verdicts() -> None:
    assert not _wrong(400)


def test_verdicts_that_count_for_nothing() -> None:
    """Few texts have such a verdict: ptxas crashes, by chance or where something uses the result, or writes no
    instruction for them."""
    assert Counter(row["reason"] for row in thread_verdicts() if row["reason"]) == REASONS


REASONS = {"random": 23, "crash": 12, "no code": 8}


@pytest.mark.exhaustive
def test_all_verdicts() -> None:
    assert not _wrong(1)


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_verdicts_of_what_came_with_hopper(step: int) -> None:
    """Copies, tensor maps, clusters, mbarriers, 128 and 256 bits, multimem: 4,000 texts."""
    tried = judged_threads(hopper_verdicts()[::step]).values()
    assert sum(each.texts for each in tried) > 3900 // step
    assert [text for each in tried for text in (*each.lax, *each.strict)] == []
