"""`python -m simulator VERB`, the same as `tcsim VERB`."""

import sys

from simulator.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
