"""Speed, as ratios of two ways to do the same thing, measured in turn in one run. `python -m tests.benchmarks` prints
them."""
