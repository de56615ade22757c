"""Locates the files that come with tcsim, such as configs and traces, in a checkout or in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder of this name ("configs" or "traces"): beside the package in a checkout, inside it when installed from
    a wheel."""
    installed = _PACKAGE / "data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
