"""Runs commands in processes of their own that share one import of TensorFlow.

Reads one job a line from standard input, runs it in a fork, and answers with its exit status. Nothing but the import is
shared: no device is set up and no flag defined before the fork.
"""

import json
import os
import signal
import sys
import traceback

import tensorflow  # noqa: F401

import tpuloop.callbacks.progress
import tpuloop.callbacks.tensorboard
import tpuloop.commands.assemble  # noqa: F401
from tpuloop.__main__ import main


def run(job):
    signal.alarm(job["timeout"])
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    for number, name in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        file = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    try:
        status = main(job["argv"])
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)  # What the parent imported is not for the child to take down.


print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    _, status = os.waitpid(child, 0)
    print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), flush=True)
