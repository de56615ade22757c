"""What ptxas would make of a program: its order, the waits and hints of its instructions, their registers, and the
sequences in place of instructions that the chip does not have.

The result is timed code: operations with their times from the config of the chip, which the timing model runs.
"""
