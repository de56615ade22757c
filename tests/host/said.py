"""Keeps what this process and its children print, while a host program runs in it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def said(into: Path) -> Iterator[None]:
    """Sends what this process and its children print to a file."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with into.open("w") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            sys.stdout.flush()
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)
