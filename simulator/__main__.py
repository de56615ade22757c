"""`python -m simulator VERB`, the same as `tcsim VERB`."""

import sys

from simulator.cli.main import command

if __name__ == "__main__":
    sys.exit(command())
