"""What the site says of the command line, the keys of configs and the errors: written from the code that has them."""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

from pages import ROOT

from isa.errors import Error
from isa.undefined import RULES
from simulator.check.rules import CHECK_RULES
from simulator.chip.config import config_names, resolve
from simulator.chip.entries import Entry, entries
from simulator.chip.layers import is_rows
from simulator.cli.verbs import VERBS, run_verb

COLUMNS = "100"  # of a help text: what a page shows whole
_ATTRIBUTE = re.compile(r"\n(?=\w+(?:, \w+)*: )")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(names: Iterable[str]) -> str:
    """Names as code, one after the other."""
    return ", ".join(f"`{name}`" for name in names)


# The command line


def command_line() -> str:
    """The help of tcsim, of each verb and of each action of a verb, as the command prints it."""
    parts = [_block(help_of())]
    for verb, summary in VERBS.items():
        parts += [f"## tcsim {verb}", f"{summary[0].upper()}{summary[1:]}.", _block(help_of(verb))]
        for action in actions(verb):
            parts += [f"### tcsim {verb} {action}", _block(help_of(verb, action))]
    return "\n\n".join(parts)


def help_of(*words: str) -> str:
    """What `tcsim WORDS --help` prints."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), COLUMNS
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            run_verb([*words, "--help"])
    except SystemExit:
        pass
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return printed.getvalue()


def actions(verb: str) -> list[str]:
    """The actions of a verb that has some: `list`, `run`, `report`, ... of `tcsim faults`."""
    parser = argparse.ArgumentParser()
    import_module(f"simulator.cli.{verb}").configure(parser)
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [name for action in found for name in action.choices]


def _block(text: str) -> str:
    return f"````text\n{text.rstrip()}\n````"


# Keys of configs


def config_keys() -> str:
    """Every key of every config, by its first table: key, legal values, meaning, the configs that have it."""
    found: dict[str, dict[str, Entry]] = {}
    users: dict[str, dict[str, None]] = {}
    names = config_names()
    for name in names:
        rows = set(_rows(resolve(name)[1].values))
        for entry in entries(name):
            key = general(entry.key, rows)
            found.setdefault(key.partition(".")[0], {}).setdefault(key, entry)
            users.setdefault(key, {})[name] = None
    parts = []
    for first, keys in found.items():
        lines = []
        for key, entry in keys.items():
            where = "all" if len(users[key]) == len(names) else ", ".join(users[key])
            lines.append([f"`{key}`", entry.legal, entry.meaning, where])
        parts += [f"## {first}", table(["key", "legal values", "meaning", "configs"], lines)]
    return "\n\n".join(parts)


def general(key: str, rows: set[str]) -> str:
    """A key with ROW in place of the name of a row: `tensor.ROW.interval`."""
    parts = key.split(".")
    for length in range(1, len(parts) - 1):
        if ".".join(parts[:length]) in rows:
            parts[length] = "ROW"
    return ".".join(parts)


def _rows(values: Mapping[str, Any], where: str = "") -> Iterable[str]:
    """The tables that are lists of named rows."""
    for key, value in values.items():
        place = f"{where}.{key}" if where else key
        if is_rows(value):
            yield place
        elif isinstance(value, Mapping):
            yield from _rows(value, place)


# Errors


def errors() -> str:
    """Every class of error: its name, what it means, what else it is, its attributes, and the rules that it names."""
    named = rules_of_classes()
    parts = []
    for kind in error_classes():
        meaning, _, attributes = cleandoc(kind.__doc__ or "").partition("Attributes:")
        bases = [base.__name__ for base in kind.__bases__]
        lines = [f"## {kind.__name__}", " ".join(meaning.split())]
        if attributes:
            lines.append("\n".join(f"* {' '.join(one.split())}" for one in _ATTRIBUTE.split(cleandoc(attributes))))
        lines.append(f"`{kind.__module__}.{kind.__name__}`, derived from {code(bases)}.")
        rules = sorted(RULES) if kind.__name__ == "UndefinedBehavior" else sorted(named.get(kind.__name__, ()))
        if rules:
            lines.append(f"Rules that it names: {code(rules)}.")
        parts += lines
    return "\n\n".join(parts)


def rules() -> str:
    """The rules: undefined cases with their sources; those that errors name beyond them and beyond `tcsim check`."""
    undefined = [[f"`{name}`", rule.rule, rule.section] for name, rule in RULES.items()]
    by_class = rules_of_classes()
    other = sorted({name for names in by_class.values() for name in names} - {*RULES, *CHECK_RULES})
    more = [[f"`{name}`", code(kind for kind in sorted(by_class) if name in by_class[kind])] for name in other]
    return "\n\n".join(
        [
            "### Undefined cases",
            table(["rule", "what must hold", "stated in"], undefined),
            "### Named by errors alone",
            table(["rule", "errors"], more),
        ]
    )


def _modules() -> list[Path]:
    return sorted(path for package in ("isa", "simulator") for path in (ROOT / package).rglob("*.py"))


def error_classes() -> list[type[Error]]:
    """The root of all errors, and all that derive from it, the most general first."""
    for path in _modules():
        if path.stem not in ("__init__", "__main__"):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found: list[type[Error]] = [Error]
    for kind in found:  # which grows
        found += [each for each in kind.__subclasses__() if each not in found]
    return [kind for kind in found if kind.__module__.split(".")[0] in ("isa", "simulator")]


def rules_of_classes() -> dict[str, set[str]]:
    """The names of rules that the code gives to errors of each class: `IsaError(..., rule="idesc")`, `rule = ...` of a
    class."""
    found: dict[str, set[str]] = {}
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                kind = getattr(node.func, "id", getattr(node.func, "attr", ""))
                values = [each.value for each in node.keywords if each.arg == "rule"]
            elif isinstance(node, ast.ClassDef):
                kind = node.name
                values = [
                    each.value
                    for each in node.body
                    if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", "") == "rule"
                ]
            else:
                continue
            names = {each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)}
            if kind.endswith("Error") and names - {""}:
                found.setdefault(kind, set()).update(names - {""})
    return found


GENERATED: dict[str, Callable[[], str]] = {
    "command_line": command_line,
    "config_keys": config_keys,
    "errors": errors,
    "rules": rules,
}
"""What stands at `<!-- the site writes here: NAME -->` of a page."""
