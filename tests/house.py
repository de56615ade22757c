"""Counts what the plan of the house promises: `python -m tests.house [--json] [--repo DIR]`.

Import circles, imports against the layers, facts that are asked of a form by its class or by its name, lines, module
sizes, docstrings, and the files that a first-time reader opens on two walks through the simulator. `--repo` counts
another checkout, for example an older one. What is counted here and must hold for ever is asserted in
tests/whole/test_house.py.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("isa", "simulator")
MOST_LINES = 400
MOST_COLUMNS = 120
_PRAGMA = re.compile(r"  # (type: ignore|noqa).*")  # which do not count in a line's length
RIDDLES = ("found", "at", "made")

# From the ground up: a module imports from its own layer and from those before it, never from those after it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("isa",),
    (
        "simulator.version",
        "simulator.errors",
        "simulator.files",
        "simulator.inputs",
        "simulator.floating_point",
        "simulator.folding",
        "simulator.locks",
        "simulator.memory_room",
        "simulator.progress",
        "simulator.resources",
    ),
    (
        "simulator.tables",
        "simulator.numpy_expression",
        "simulator.toml_tables",
        "simulator.user_functions",
        "simulator.parallel",
        "simulator.floating_point",
        "simulator.parts",
        "simulator.statistics",
    ),
    ("simulator.state", "simulator.arithmetic", "simulator.layout"),
    ("simulator.execute",),
    ("simulator.program", "simulator.chip"),
    ("simulator.machine", "simulator.compiler"),
    ("simulator.timing",),
    ("simulator.simulation",),
    ("simulator.applications",),
    ("simulator.faults", "simulator.check"),
    ("simulator.studies", "simulator.views", "simulator.lessons", "simulator.host"),
    ("simulator.cli",),
    ("simulator", "simulator.__main__"),
)


@dataclass(frozen=True)
class Import:
    """One module names another, anywhere in its text: at the top, inside a function, or for the type checker alone."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


@dataclass(frozen=True)
class Module:
    """One Python file."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree: walked once, asked by each count."""
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:  # which grows: faster than ast.walk
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    nodes.append(value)
                elif isinstance(value, list):
                    nodes += [part for part in value if isinstance(part, ast.AST)]
        return nodes

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def package(self) -> str:
        """What a relative import starts from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def modules(repo: Path, packages: Sequence[str] = PACKAGES) -> dict[str, Module]:
    """Every module of the packages, by its dotted name."""
    read = {}
    for path in sorted(path for package in packages for path in (repo / package).rglob("*.py")):
        parts = path.relative_to(repo).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        read[name] = Module(name, path, path.read_text())
    return read


def imports(read: dict[str, Module]) -> list[Import]:
    """Every import of one of these modules by another. `from package import x` is an import of the module x where there
    is one."""
    edges = []
    for module in read.values():
        for node in module.nodes:
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = node.module or ""
                if node.level:
                    parts = module.package.split(".")
                    start = ".".join([*parts[: len(parts) - node.level + 1], *([start] if start else [])])
                names = (f"{start}.{alias.name}" for alias in node.names)
                targets = [name if name in read else start for name in names]
            else:
                continue
            for target in dict.fromkeys(targets):
                if target in read and target != module.name:
                    edges.append(Import(module.name, target, node.lineno))
    return edges


def circles(edges: Iterable[Import]) -> list[list[str]]:
    """Groups of modules that reach each other (the strongly connected components of more than one module), by Tarjan's
    algorithm."""
    graph: dict[str, list[str]] = {}
    for edge in edges:
        graph.setdefault(edge.importer, []).append(edge.imported)
        graph.setdefault(edge.imported, [])
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            first = stack.index(node)
            group = stack[first:]
            del stack[first:]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(groups)


def layer(name: str) -> int | None:
    """The number of a module's layer; None for a module that the plan does not name."""
    for number, names in enumerate(LAYERS):
        if any(name == one or (one != "simulator" and name.startswith(f"{one}.")) for one in names):
            return number
    return None


def violations(edges: Iterable[Import]) -> list[Import]:
    """The imports of a higher layer by a lower one."""
    wrong = []
    for edge in edges:
        importer, imported = layer(edge.importer), layer(edge.imported)
        if importer is not None and imported is not None and importer < imported:
            wrong.append(edge)
    return wrong


def _class_names(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def _last_word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_form_fact(node: ast.expr) -> bool:
    """Whether this reads `form.unit` or `form.name`, of whatever holds a form."""
    return isinstance(node, ast.Attribute) and node.attr in ("unit", "name") and _last_word(node.value).endswith("form")


def isinstance_of_forms(module: Module) -> list[int]:
    """Lines that ask a form for its class: `isinstance(x, MmaForm)` or a `case MmaForm():`."""
    lines = []
    for node in module.nodes:
        if isinstance(node, ast.Call) and _last_word(node.func) in ("isinstance", "issubclass") and len(node.args) == 2:
            if any(name.endswith("Form") for name in _class_names(node.args[1])):
                lines.append(node.lineno)
        elif isinstance(node, ast.MatchClass) and _last_word(node.cls).endswith("Form"):
            lines.append(node.cls.lineno)
    return sorted(lines)


def guards_of_forms(read: dict[str, Module]) -> list[str]:
    """Calls of functions that are declared to tell one class of forms from others (`TypeGuard`, `TypeIs`)."""
    functions = [
        (module, node) for module in read.values() for node in module.nodes if isinstance(node, ast.FunctionDef)
    ]
    guards = {
        node.name
        for _, node in functions
        if isinstance(node.returns, ast.Subscript)
        and _last_word(node.returns.value) in ("TypeGuard", "TypeIs")
        and any(name.endswith("Form") for name in _class_names(node.returns.slice))
    }
    return [
        f"{name}:{node.lineno}"
        for name, module in read.items()
        for node in module.nodes
        if isinstance(node, ast.Call) and _last_word(node.func) in guards
    ]


def comparisons_of_forms(module: Module) -> list[int]:
    """Lines that compare a form's unit or name, or use one to look something up: `form.name == "ld"`, `form.unit in
    (...)`, `match form.name`."""
    lines = []
    for node in module.nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            sides = [node.subject]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("startswith", "endswith")
        ):
            sides = [node.func.value]
        else:
            continue
        if any(_is_form_fact(side) for side in sides):
            lines.append(node.lineno)
    return sorted(lines)


@dataclass(frozen=True)
class Docstrings:
    """Functions and methods, with a docstring and without."""

    present: int
    missing: int


def docstrings(read: Iterable[Module]) -> Docstrings:
    has = [
        ast.get_docstring(node) is not None
        for module in read
        for node in module.nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return Docstrings(sum(has), len(has) - sum(has))


def riddles(read: Iterable[Module]) -> dict[str, int]:
    """How often each riddle of a name is assigned."""
    counts = dict.fromkeys(RIDDLES, 0)
    for module in read:
        for node in module.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in counts:
                counts[node.id] += 1
            elif isinstance(node, ast.arg) and node.arg in counts:
                counts[node.arg] += 1
    return counts


# Each walk first warms up with an instruction of another kind, so that what is shared is imported and what belongs to
# the walk alone is not yet remembered from an earlier call. Then every file of isa/ and simulator/ in which a function
# is called is noted.
_WALK = '''
import os, sys
import numpy as np
import simulator

def instruction(shape, registers):
    a, b, c = (np.zeros((1, count, 32), np.uint32) for count in registers)
    opcode = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.f32.f16.f16.f32"
    return simulator.mma_sp(opcode, a, b, c, np.full((1, 32), 0x44444444, np.uint32), selector=0, target="sm_90a")

def trace(name, body):
    path = os.path.join(sys.argv[2], name)
    with open(path, "w") as file:
        file.write(".trace 1\\n.target sm_90a\\n.warps 1\\n.warp 0 {\\n" + body + "\\n}\\n")
    return simulator.run(path, config="h100_sxm", arithmetic="none").cycles

WARM_LINES = "add.s32 %r1, %r2, 4;"
LINES = """add.s32 %r20, %r20, 4;
    mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32
        {%r8, %r9, %r10, %r11}, {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11}, %r16, 0x0;"""
WALKS = {
    "metadata": (lambda: instruction("m16n8k16", (2, 2, 4)), lambda: instruction("m16n8k32", (4, 4, 4))),
    "trace": (lambda: trace("warm.trace", WARM_LINES), lambda: trace("walk.trace", LINES)),
}
warm_up, walk = WALKS[sys.argv[1]]
warm_up()
seen, files, root = set(), set(), os.getcwd() + os.sep

def importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code not in seen and code.co_filename.startswith(root) and not importing(frame):
        seen.add(code)
        files.add(code.co_filename[len(root):])

sys.setprofile(note)
walk()
sys.setprofile(None)
print("\\n".join(sorted(file for file in files if file.startswith(("isa" + os.sep, "simulator" + os.sep)))))
'''


def walk(repo: Path, name: str, folder: Path) -> list[str]:
    """The source files in which a function is called on a walk: "metadata" (a metadata register to D) or "trace" (a
    line of a trace to its cycle)."""
    done = subprocess.run(
        [sys.executable, "-c", _WALK, name, str(folder)],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(repo)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"walk {name!r} in {repo} failed:\n{done.stderr}")
    return done.stdout.split()


@dataclass(frozen=True)
class Counts:
    """What is printed; lists are what was counted, so that one can go there."""

    circles: list[list[str]]
    violations: list[str]
    unknown_layers: list[str]
    isinstance_of_forms: list[str]
    guards_of_forms: list[str]
    comparisons_of_forms: list[str]
    ldmatrix_files: list[str]
    lines: dict[str, int]
    long_modules: dict[str, int]
    long_lines: list[str]
    functions_with_docstring: int
    functions_without_docstring: int
    riddles: dict[str, int]
    walk_metadata: list[str]
    walk_trace: list[str]


def _lines(repo: Path, folder: str) -> int:
    return sum(len(path.read_text().splitlines()) for path in (repo / folder).rglob("*.py"))


def count(repo: Path, walks: bool = True) -> Counts:
    """All counts of a checkout."""
    import tempfile

    read = modules(repo)
    edges = imports(read)
    places = {name: str(module.path.relative_to(repo)) for name, module in read.items()}
    with tempfile.TemporaryDirectory() as folder:
        metadata, trace = ((walk(repo, name, Path(folder)) if walks else []) for name in ("metadata", "trace"))
    documented = docstrings(read.values())
    texts = [
        path
        for package in PACKAGES
        for path in (repo / package).rglob("*")
        if path.suffix in (".py", ".js", ".c", ".h", ".toml")
    ]
    return Counts(
        circles=circles(edges),
        violations=[str(edge) for edge in violations(edges)],
        unknown_layers=[name for name in read if layer(name) is None],
        isinstance_of_forms=[
            f"{places[name]}:{line}" for name, module in read.items() for line in isinstance_of_forms(module)
        ],
        guards_of_forms=guards_of_forms(read),
        comparisons_of_forms=[
            f"{places[name]}:{line}" for name, module in read.items() for line in comparisons_of_forms(module)
        ],
        ldmatrix_files=sorted(str(path.relative_to(repo)) for path in texts if "ldmatrix" in path.read_text()),
        lines={folder: _lines(repo, folder) for folder in ("isa", "simulator", "simulator/faults", "tests")},
        long_modules={
            places[name]: len(module.lines) for name, module in read.items() if len(module.lines) > MOST_LINES
        },
        long_lines=[
            f"{path.relative_to(repo)}:{number}"
            for folder in ("isa", "simulator", "tests", "traces", "notebooks")
            for path in sorted((repo / folder).rglob("*.py"))
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if len(line) > MOST_COLUMNS and len(_PRAGMA.sub("", line)) > MOST_COLUMNS
        ],
        functions_with_docstring=documented.present,
        functions_without_docstring=documented.missing,
        riddles=riddles(read.values()),
        walk_metadata=metadata,
        walk_trace=trace,
    )


def table(counts: Counts) -> str:
    """The counts for a reader: one line each, and the few things that should not be there by name."""
    riddle = ", ".join(f"{name} {times}" for name, times in counts.riddles.items())
    rows: list[tuple[str, object]] = [
        ("import circles", len(counts.circles)),
        ("imports against the layers", len(counts.violations)),
        ("modules outside the layers", len(counts.unknown_layers)),
        ("isinstance of forms", len(counts.isinstance_of_forms)),
        ("calls of type guards of forms", len(counts.guards_of_forms)),
        ("comparisons of a form's unit or name", len(counts.comparisons_of_forms)),
        ("files that mention ldmatrix", len(counts.ldmatrix_files)),
        *((f"lines of {folder}", f"{lines:,}") for folder, lines in counts.lines.items()),
        (f"modules above {MOST_LINES} lines", len(counts.long_modules)),
        (f"lines above {MOST_COLUMNS} columns", len(counts.long_lines)),
        ("functions with a docstring", f"{counts.functions_with_docstring:,}"),
        ("functions without", f"{counts.functions_without_docstring:,}"),
        ("assignments to riddles of names", riddle),
        ("files opened: a metadata register to D", len(counts.walk_metadata)),
        ("files opened: a line of a trace to its cycle", len(counts.walk_trace)),
    ]
    width = max(len(name) for name, _ in rows)
    text = [f"{name:{width}}  {value}" for name, value in rows]
    text += [f"circle: {' '.join(group)}" for group in counts.circles]
    text += [f"against the layers: {edge}" for edge in counts.violations]
    text += [f"above {MOST_LINES} lines: {path} ({lines})" for path, lines in counts.long_modules.items()]
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.house", description="Counts what the plan of the house promises."
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON object, with the places")
    parser.add_argument("--repo", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout to count")
    options = parser.parse_args(arguments)
    counts = count(options.repo.resolve())
    print(json.dumps(asdict(counts), indent=1) if options.json else table(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
