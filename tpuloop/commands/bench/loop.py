"""`tpuloop bench loop`: what a step costs around the model, against a hand-written loop and Keras's."""

import json
import os
import subprocess
import sys
from typing import Any, Dict

from absl import flags

from tpuloop.commands import common_flags
from tpuloop.commands.program import WRONG_INPUT, CommandFailed
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS

SUMMARY = "times the training loop against a hand-written one and model.fit, and the start of the command line"

_REPLICAS = (1, 8)
_STARTS = 7


def define_flags() -> None:
    """The flags of the command."""
    flags.DEFINE_integer("repeats", 15, "Slices of each loop; they take turns.", lower_bound=1)
    flags.DEFINE_float("slice_seconds", 0.35, "About how long a slice takes.", lower_bound=0)
    flags.DEFINE_integer(
        "steps_per_loop",
        None,
        "Steps in one compiled call; by default 500, and 200 on several replicas.",
        lower_bound=1,
    )
    flags.DEFINE_integer("steps_per_execution", 100, "Steps in one call of model.fit.", lower_bound=1)
    flags.DEFINE_integer("check_steps", 100, "First steps, whose loss and accuracy must agree.", lower_bound=1)
    flags.DEFINE_bool("startup", True, "Measure the start of the command line as well.")
    flags.DEFINE_bool("json", False, "Print the measurements as JSON.")
    common_flags.define_runtime_flags()


def run() -> int:
    """Measures on 1 and on 8 replicas, or on as many as --replicas says, and prints the result."""
    from tpuloop.commands.bench.machine import machine
    from tpuloop.commands.bench.startup import STARTS, startup_seconds
    from tpuloop.commands.bench.table import report

    results: Dict[str, Any] = {"machine": machine(), "races": [], "startup": {}}
    if FLAGS.replicas is not None:
        results["races"].append(_race())
    else:
        results["races"] += [_race_in_a_new_process(count) for count in _REPLICAS]
    if FLAGS.startup:
        seconds = startup_seconds(repeats=_STARTS)
        results["startup"] = {name: (values, STARTS[name][1]) for name, values in seconds.items()}
    print(json.dumps(results) if FLAGS.json else report(results))
    return 0


def _race() -> Dict[str, Any]:
    runtime = common_flags.runtime_from_flags()
    from tpuloop.commands.bench.race import disagreement, race

    result = race(
        runtime,
        repeats=FLAGS.repeats,
        slice_seconds=FLAGS.slice_seconds,
        steps_per_loop=FLAGS.steps_per_loop or (500 if runtime.replicas == 1 else 200),
        per_execution=FLAGS.steps_per_execution,
        check_steps=FLAGS.check_steps,
    )
    problem = disagreement(result["check"], result["shuffled"])
    if problem is not None:
        raise CommandFailed(problem)
    return result


def _race_in_a_new_process(replicas: int) -> Dict[str, Any]:
    """The number of logical devices is fixed once TensorFlow runs, so each has a process of its own."""
    names = ("repeats", "slice_seconds", "steps_per_loop", "steps_per_execution", "check_steps", "accelerator")
    arguments = [f"--{name}={FLAGS[name].value}" for name in names if FLAGS[name].value is not None]
    command = [sys.executable, "-m", "tpuloop", "bench", "loop", f"--replicas={replicas}", "--json", "--nostartup"]
    # Keras's distributed data is warned about at length, which says nothing of the measurement.
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        # Flags that are wrong there are wrong here.
        kind = UsageError if done.returncode == WRONG_INPUT else CommandFailed
        raise kind(f"the run on {replicas} replicas ended with status {done.returncode}; see above")
    return json.loads(done.stdout)["races"][0]
