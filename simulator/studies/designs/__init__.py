"""Cores with sparsity that nobody sells: what they would take, beside what their authors published.

>>> from simulator.studies import designs
>>> report = designs.evaluate("dstc")
>>> report.worst < 0.15
True

docs/designs.md has the whole story.
"""

from simulator.studies.designs.chip import Needs, design_config, needs
from simulator.studies.designs.evaluate import Evaluation, Report, evaluate
from simulator.studies.designs.record import Design, design_names, load_design

__all__ = [
    "Design",
    "Evaluation",
    "Needs",
    "Report",
    "design_config",
    "design_names",
    "evaluate",
    "load_design",
    "needs",
]
