"""The version of tcsim."""

__version__ = "0.1.0"
