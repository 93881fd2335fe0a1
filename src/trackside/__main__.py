"""`python -m trackside` is the command `trackside`."""

import sys

from trackside.cli import main

if __name__ == "__main__":
    sys.exit(main())
