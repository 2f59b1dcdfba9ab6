"""The file that a cluster starts for each step; `lamplighter_job.zip` comes beside it."""

import sys

from lamplighter_job.runner import main

if __name__ == "__main__":
    sys.exit(main())
