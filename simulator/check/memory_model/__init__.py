"""Happens-before of the threads of a launch: which accesses the PTX memory model orders, and which race.

`clocks` has what each thread knows of the others, `shadow` who accessed each byte last, `semantics` what an instruction
means for the order, `order` follows a run. docs/memory_order.md states the rules.
"""
