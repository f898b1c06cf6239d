"""What workers are given to do in `test_workers.py`; a module that new processes can import."""

import os
import time

from tpuloop.errors import UsageError


def double(setting, job, reporter):
    reporter.done(job)
    return setting * job


def fail_late_at_first(setting, job, reporter):
    if job == 0:
        time.sleep(0.5)
    raise UsageError(f"job {job}")


def signal_itself(setting, job, reporter):
    os.kill(os.getpid(), setting)
    return job


def bug(setting, job, reporter):
    raise ZeroDivisionError
