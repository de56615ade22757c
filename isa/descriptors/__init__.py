"""Bit fields that an instruction reads from a register: instruction descriptors and zero-column masks."""
