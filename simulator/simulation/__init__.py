"""A program and a config make a report."""
