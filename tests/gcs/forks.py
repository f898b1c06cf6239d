"""Runs commands, or lines of Python, in processes that share one import of TensorFlow with its plugin for `gs://`.

Reads one job a line from standard input and runs it in a fork; answers with its process id, and then its exit status.
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
    os.environ.update(job["env"])
    for number, name in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        file = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    status = 1
    try:
        if job["code"] is None:
            status = main(job["argv"])
        else:
            exec(job["code"], {"__name__": "__main__"})
            status = 0
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), flush=True)
