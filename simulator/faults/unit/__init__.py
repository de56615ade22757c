"""Faults of the tensor core unit itself: which words of it can be struck, and what becomes of the instructions that it
executes meanwhile."""
