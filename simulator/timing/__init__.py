"""The timing engine: an event-driven model of an SM, which tells how long a program takes and where the cycles go.

Events are those of the library SimPy; every number of a chip comes from a config file.
"""
