"""What ptxas 13.0 says about texts of every family but matrix instructions: the decoder agrees, or the text is one of
those that are recorded as open."""

from __future__ import annotations

import pytest

from tests.golden.compare_ptxas import judged_threads, thread_verdicts


def _wrong(step: int) -> list[str]:
    """Texts on which the decoder disagrees with ptxas, but for those that are recorded as open."""
    rows = [row for row in thread_verdicts() if row["open"] == "0"]
    return [text for tried in judged_threads(rows[::step]).values() for text in (*tried.lax, *tried.strict)]


def test_a_sample_of_the_verdicts() -> None:
    assert not _wrong(400)


@pytest.mark.exhaustive
def test_all_verdicts() -> None:
    assert not _wrong(1)
