"""Studies of faults: one flips every metadata bit of every form, the other computes what fault detectors cost."""
