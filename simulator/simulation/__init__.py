"""Running a program: its values are computed, its cycles are counted, and both become a report.

`run.run` does all of it; `session.Session` is for tools that run one program many times.
"""
