"""Executing single instructions: what each does to the registers and memories of a CTA, for many warps at once.

There is one module for each family of instructions; `dispatch.executor` finds the function for an instruction.
"""
