"""Runs the cells of a lesson in the browser, as Jupyter would: what they print, and what their last line is.

Where matplotlib is not among the packages, a stand-in takes every call and draws nothing; the page then shows the
picture that was recorded when the lessons were built.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import traceback
from types import ModuleType
from typing import Any

FILE = "<cell>"


class SVG:
    """What lessons take from IPython.display: a picture, from its text."""

    def __init__(self, data: str) -> None:
        self.data = data

    def _repr_svg_(self) -> str:
        return self.data


class Nothing:
    """Stands for anything of matplotlib: can be called, asked, indexed and taken apart, and does nothing."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_repr_")):
            raise AttributeError(name)
        return self

    def __getitem__(self, _: Any) -> Any:
        return self

    def __setitem__(self, *_: Any) -> None:
        return None

    def __iter__(self) -> Any:
        return iter((self,))

    def __len__(self) -> int:
        return 1


def _subplots(rows: int = 1, columns: int = 1, **_: Any) -> tuple[Nothing, Any]:
    """As matplotlib's: one part, a row of parts, or rows of them."""
    parts = [[Nothing() for _ in range(columns)] for _ in range(rows)]
    if rows == columns == 1:
        return Nothing(), parts[0][0]
    import numpy as np

    grid = np.empty((rows, columns), object)
    grid[:] = parts
    return Nothing(), grid.squeeze()


def _module(name: str, **content: Any) -> ModuleType:
    """A module of this name that stands for another."""
    module = ModuleType(name)
    module.__dict__.update(content)
    sys.modules[name] = module
    return module


def stand_ins() -> bool:
    """Puts `IPython.display` in place, and a stand-in for matplotlib if it is missing; whether it is."""
    _module("IPython", display=_module("IPython.display", SVG=SVG))
    if importlib.util.find_spec("matplotlib") is not None:
        os.environ["MPLBACKEND"] = "agg"
        return False
    plot = _module("matplotlib.pyplot", subplots=_subplots, rcParams={}, __getattr__=lambda name: Nothing())
    colors = _module("matplotlib.colors", __getattr__=lambda name: Nothing())
    _module("matplotlib", pyplot=plot, colors=colors, __getattr__=lambda name: Nothing())
    return True


class Session:
    """The names that the cells of one lesson share, and a folder of their own to write to."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.recorded_pictures = stand_ins()
        os.chdir(tempfile.mkdtemp())

    def run(self, source: str) -> list[dict[str, str]]:
        """The outputs of a cell, in order, as kind (text, html, svg, png, recorded, error) and data."""
        printed = io.StringIO()
        found: list[dict[str, str]] = []
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                value = self._value(source)
                if value is not None and not isinstance(value, Nothing):
                    found.append(_shown(value))
        except BaseException as error:
            found.append({"kind": "error", "data": _told(error)})
        if printed.getvalue():
            found.insert(0, {"kind": "text", "data": printed.getvalue()})
        return found + self._pictures(source)

    def _value(self, source: str) -> Any:
        """Runs a cell; the value of its last line, if that is an expression without a semicolon behind it."""
        body = ast.parse(source, FILE).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), FILE, "exec"), self.names)
        if last is None:
            return None
        value = eval(compile(ast.Expression(last.value), FILE, "eval"), self.names)
        return None if source.rstrip().endswith(";") else value

    def _pictures(self, source: str) -> list[dict[str, str]]:
        """What a cell drew with matplotlib; where this is a stand-in, that there is a recorded picture."""
        if self.recorded_pictures:
            return [{"kind": "recorded", "data": ""}] if "plt." in source else []
        plot = sys.modules.get("matplotlib.pyplot")
        found = []
        for number in plot.get_fignums() if plot else ():
            picture = io.BytesIO()
            plot.figure(number).savefig(picture, format="png", bbox_inches="tight")
            found.append({"kind": "png", "data": base64.b64encode(picture.getvalue()).decode("ascii")})
        if plot:
            plot.close("all")
        return found


def _shown(value: Any) -> dict[str, str]:
    """A value as its richest form that the page can show."""
    for kind in ("svg", "html"):
        method = getattr(value, f"_repr_{kind}_", None)
        if method is not None and (data := method()) is not None:
            return {"kind": kind, "data": data}
    return {"kind": "text", "data": f"{value!r}\n"}


def _told(error: BaseException) -> str:
    """The traceback of an error, from the cell on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
