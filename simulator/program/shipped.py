"""The traces that come with tcsim, by their names: "digits/f16" is traces/digits/f16.trace."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from isa.arguments import described
from simulator.errors import TraceError
from simulator.resources import folder


def trace_names() -> list[str]:
    """The names of the traces that come with tcsim."""
    root = folder("traces")
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.trace"))


def find_trace(name: str | Path) -> Path:
    """The path of a trace: `name` itself if there is such a file, else that of the trace that comes with tcsim.

    Raises:
        TraceError: neither is there; names the traces that are, the nearest first.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise TraceError("", 0, 0, f"{described(name)} in place of a trace", "a path, a name, a text or a Program")
    if not str(name):
        raise TraceError("''", 0, 0, "no name of a file", "the path of a trace, or the name of one that comes along")
    path = Path(name)
    shipped = folder("traces") / f"{name}.trace"
    try:
        if path.is_file() or not shipped.is_file():
            path.stat()
            return path
        return shipped
    except FileNotFoundError:
        raise _unknown(str(name)) from None
    except (OSError, ValueError) as error:
        raise TraceError(
            str(name)[:100],
            0,
            0,
            f"cannot be the name of a file ({getattr(error, 'strerror', None) or error})",
            "the path of a trace, or the name of one that comes along",
        ) from None


def _unknown(name: str) -> TraceError:
    """The error for a trace that is not there."""
    names, asked = trace_names(), name.removesuffix(".trace")
    near = get_close_matches(asked, names, len(names), 0.0)
    meant = [full for full in names if full.endswith(f"/{asked}")] or get_close_matches(asked, near, 1)
    hint = f", did you mean '{meant[0]}'?" if meant else ""
    if asked != name:  # the name of a file: the names of all traces would not help
        legal = f"the path of a trace, or the name of one that comes with tcsim, such as {names[0]}"
    else:
        legal = f"the path of a trace, or one that comes with tcsim: {', '.join(near or names)}"
    return TraceError(name, 0, 0, f"no such trace{hint} (No such file or directory)", legal)
