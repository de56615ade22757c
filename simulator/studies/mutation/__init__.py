"""What the sanitizer is worth: mutants of right kernels, each with one mistake, and what `tcsim check` finds of them.

    python -m simulator.studies.mutation CAPTURE.json ... [--count N] [--seed S] [--format table|csv|json|markdown]

`study` makes mutants of captured kernels (docs/mutation.md has the operators), shows that each is wrong without the
check that is judged, and compares what the check says with what was changed: the line, and the repair.
"""

from __future__ import annotations

from simulator.studies.mutation.choice import mutants
from simulator.studies.mutation.evaluate import Row
from simulator.studies.mutation.mutant import OPERATORS, Mutant
from simulator.studies.mutation.study import Study, again, keep, study
from simulator.studies.mutation.subject import Subject

__all__ = ["OPERATORS", "Mutant", "Row", "Study", "Subject", "again", "keep", "mutants", "study"]
