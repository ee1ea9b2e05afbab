"""`python -m tensorfleet script.py`: see `tensorfleet.standin.run`."""

import sys

from tensorfleet.standin.run import main

if __name__ == "__main__":
    sys.exit(main())
