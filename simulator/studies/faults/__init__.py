"""Studies of faults: every metadata bit of every form, and what detectors cost."""
