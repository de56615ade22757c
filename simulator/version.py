"""The version of tcsim."""

__version__ = "0.2.0"
