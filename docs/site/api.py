"""The pages of the Python interface: one for each package that is a contract with users, with the names that it
offers."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from inspect import cleandoc, isclass, isfunction, ismodule
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType

from docstrings import escaped as as_text

CONTRACTS = (
    *("isa", "simulator", "simulator.arithmetic", "simulator.lessons", "simulator.program.capture"),
    *("simulator.layout", "simulator.faults", "simulator.check", "simulator.studies.gemm"),
    *("simulator.studies.sparselt", "simulator.studies.sweep", "simulator.studies.accuracy"),
    *("simulator.studies.roofline", "simulator.studies.validation", "simulator.views.drawing"),
    *("simulator.views.explorer", "simulator.host"),
)
"""`import simulator` offers the last of these by short names, such as `simulator.gemm`."""
MOST = 400  # characters of a constant that is shown by its values


def api_pages() -> dict[str, str]:
    """The pages, by their paths in the site. What several packages offer is described on the first page that has it."""
    described: dict[int, str] = {}
    return {f"api/{name}.rst": _page(name, described) for name in CONTRACTS}


def api_list() -> str:
    """The list of these pages, and their place in the site's navigation."""
    lines = [f"* [{_short(name)}](api/{name}.rst): {_summary(name)}" for name in CONTRACTS]
    entries = [f"{_short(name)} <api/{name}>" for name in CONTRACTS]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *entries, "```"])


def _summary(name: str) -> str:
    """The first sentence of a package's docstring."""
    return " ".join((import_module(name).__doc__ or "").split()).partition(". ")[0].rstrip(".")


def _page(name: str, described: dict[int, str]) -> str:
    module = import_module(name)
    short = _short(name)
    lines = [
        short,
        "=" * len(short),
        "",
        f".. automodule:: {name}",
        "   :no-members:",
        "",
        f".. currentmodule:: {name}",
        "",
    ]
    packages, elsewhere = [], []
    for offered in sorted(_offered(module), key=lambda each: _rank(getattr(module, each))):
        value = getattr(module, offered)
        if ismodule(value):
            packages.append((offered, value.__name__))
        elif id(value) in described:
            elsewhere.append(f"* ``{short}.{offered}``: :py:obj:`{described[id(value)]}`")
        elif isclass(value) or isfunction(value):
            described[id(value)] = f"{name}.{offered}"
            lines += [f".. {_directive(value)}:: {name}.{offered}", *(["   :members:"] if isclass(value) else []), ""]
        else:
            meaning = as_text(_said_of(offered, value))
            lines += [f".. py:data:: {offered}", "", *(f"   {line}" for line in meaning.split("\n")), ""]
    if elsewhere:
        lines += ["Described elsewhere", "-------------------", "", *elsewhere, ""]
    if packages:
        lines += ["Packages", "--------", ""]
        for offered, place in packages:
            known = f":doc:`{short}.{offered} <{place}>`" if place in CONTRACTS else f"``{short}.{offered}``"
            lines.append(f"* {known}")
    return "\n".join(lines) + "\n"


def _said_of(name: str, value: object) -> str:
    """The string behind the assignment of a constant, in the module that has it; its value where there is none."""
    for module in [each for each in sys.modules.values() if vars(each).get(name) is value]:
        if not getattr(module, "__file__", "").endswith(".py"):
            continue
        body = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body
        for assigned, said in pairwise(body):
            targets = assigned.targets if isinstance(assigned, ast.Assign) else [getattr(assigned, "target", None)]
            text = said.value if isinstance(said, ast.Expr) else None
            if isinstance(text, ast.Constant) and name in [getattr(target, "id", "") for target in targets]:
                return cleandoc(str(text.value))
    names = list(value) if isinstance(value, (dict, tuple, list)) else [value]
    return ", ".join(f"`{each}`" for each in names) if len(str(names)) < MOST else f"{len(names)} values."


def _short(name: str) -> str:
    """How users call it."""
    last = name.rpartition(".")[2]
    return f"simulator.{last}" if name.startswith(("simulator.studies.", "simulator.views.")) else name


def _offered(module: ModuleType) -> list[str]:
    """The names of a contract: those that it lists, or the public ones that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if name != "__version__"]
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [name for name, value in own.items() if getattr(value, "__module__", None) == module.__name__]


def _rank(value: object) -> int:
    """Functions first, then classes, constants, errors."""
    if isclass(value):
        return 3 if issubclass(value, BaseException) else 1
    return 0 if isfunction(value) else 2


def _directive(value: type | FunctionType) -> str:
    if isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction"
