"""Blame for a wrong result: the launch runs again with one thing changed, until the result is what was expected."""
