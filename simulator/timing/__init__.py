"""Runs of the machine: how many cycles a program takes, and where they go.

`run` starts and ends a run, `repetition` skips what repeats, `apart` times sub-cores that share nothing one by one, and
`recorder` keeps what timelines show. The rules of an SM are in `simulator.machine`, its numbers in configs.
"""
