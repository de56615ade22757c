"""The tables of instructions together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isa.forms.table import check_rows, rows_by_name
from tests.support.cases import exhaustive


def test_two_rows_for_one_opcode_are_refused() -> None:
    """As when somebody adds an instruction that is there, and PTX's section of it is not the one of the other row."""
    (row,) = rows_by_name()["popc"]
    check_rows((row, row))
    with pytest.raises(AssertionError, match=r"two rows for 'popc.b32': 9.7.1.14 and 9.7.1.15"):
        check_rows((row, replace(row, section="9.7.1.15")))


@exhaustive
def test_no_opcode_is_in_two_sections() -> None:
    for rows in rows_by_name().values():
        check_rows(rows)
