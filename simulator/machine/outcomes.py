"""Why the front of an SM returns from `Front.advance`, and the cycle that does not come."""

from __future__ import annotations

NEVER = 1 << 62  # a cycle that does not come
WAITS = 0  # nothing happens before the cycle asked for
OUTSIDE = 1  # an instruction is to issue that starts something on its own clock: `Front.issue_chosen`
BOUNDARY = 2  # a warp is at the end of a loop, where a repetition may be found: `Front.at_boundary`
PAUSE = 3  # enough steps for once
