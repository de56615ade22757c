"""The SM in SimPy: how long a program takes on a chip, and where the cycles go."""
