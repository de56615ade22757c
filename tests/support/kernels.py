"""PTX texts that tests of several folders launch."""

from __future__ import annotations

NOTHING = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    ret;
}
"""
"""A kernel of one parameter that does nothing."""
