"""One torch thread a process: small tensors gain nothing from more, and the tests run in two processes."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # also for the processes that tests start
