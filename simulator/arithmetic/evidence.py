"""Prints the rules and rows of `simulator.arithmetic.rows` as Markdown tables, with the evidence for each.

`python -m simulator.arithmetic.evidence` prints the tables of docs/arithmetic.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isa.types import ELEMENT_TYPES
from simulator.arithmetic.rows import SUM_ROWS, SumRule


def rules() -> str:
    """A Markdown table of the rules, one line for each."""
    used = {row.rule.name: row.rule for row in SUM_ROWS}
    heads = ("rule", "A in a step", "fraction bits", "floor f32 / f16", "f32 result", "remarks")
    return _table(heads, (_rule(rule) for rule in used.values()))


def rows() -> str:
    """A Markdown table of the rows, one line for each."""
    heads = ("family", "", "inputs", "targets sm_", "rule", "evidence")
    lines = []
    for row in SUM_ROWS:
        which = " ".join(part for part in ("sparse" if row.sparse else "dense", row.kind, row.shape) if part)
        lines.append(
            (
                row.family,
                which,
                row.inputs,
                ", ".join(map(str, row.targets)),
                row.rule.name,
                f"{row.evidence}: {row.source}",
            )
        )
    return _table(heads, lines)


def _rule(rule: SumRule) -> Sequence[str]:
    if rule.chained:
        return rule.name, "-", "-", "-", "to nearest even", "no tensor-core sum: one multiply-add after the other"
    remarks = [
        f"groups of {rule.group} products added exactly first, aligned by their scales" if rule.group else "",
        f"inputs converted to {rule.through}; two steps, columns 0, 1 of every four first; C added last, to "
        f"nearest even"
        if rule.through
        else "",
    ]
    floors = " / ".join(str(rule.floor(ELEMENT_TYPES[name])) for name in (("f32",) if rule.group else ("f32", "f16")))
    kept = f"toward zero, {rule.kept} bits"
    return (
        rule.name,
        f"{rule.step_bytes} bytes",
        str(rule.fraction),
        floors,
        kept,
        "; ".join(remark for remark in remarks if remark),
    )


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def main() -> None:
    """Prints both tables."""
    print(rules(), rows(), sep="\n\n")


if __name__ == "__main__":
    main()
