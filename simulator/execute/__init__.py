"""Execution of instructions on arrays of registers: one module for each family."""
