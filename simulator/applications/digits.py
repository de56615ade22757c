"""Temporary."""
from __future__ import annotations
import importlib.util, sys
from simulator.resources import folder
def _classify():
    where = folder("traces") / "digits"
    spec = importlib.util.spec_from_file_location("tcsim_digits_classify", where / "classify.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(where))
    try: spec.loader.exec_module(module)
    finally: sys.path.remove(str(where))
    return module
_m = _classify()
BadInputError, EVERY = _m.BadInputError, _m.EVERY
Classifier = _m.Classifier
def plan_that_stores(arrays):
    known = [name for name, plan in EVERY.items() if plan.d_key in arrays]
    return known[0] if len(known) == 1 else None
