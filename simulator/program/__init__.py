"""Traces in memory: text to programs, programs to flat code, the data that they load and store."""
