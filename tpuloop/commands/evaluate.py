"""`tpuloop evaluate`: the loss and metrics of a run on its held-out data."""

import json

from absl import flags

from tpuloop.commands import restored
from tpuloop.commands.result_line import result_line
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS

SUMMARY = "evaluates a run on its held-out data, every example once"


def define_flags() -> None:
    """The flags of the command."""
    restored.define_restore_flags()
    flags.DEFINE_integer(
        "global_batch", None, "Examples a step; by default as in training. Does not change the result."
    )
    flags.DEFINE_bool("json", False, "Print the result as one line of JSON.")


def run() -> int:
    """Evaluates and prints one line."""
    run_ = restored.restore_run()
    evaluation = run_.data_sets.evaluation
    if evaluation is None:
        raise UsageError(f"the data {run_.recipe.data['name']!r} has nothing held out to evaluate on")
    results = run_.loop.evaluate(evaluation, batch_size=restored.batch_size(evaluation, run_.recipe))
    if FLAGS.json:
        print(json.dumps({"step": run_.step, **results}, sort_keys=True))
    else:
        print(result_line("held-out", results, step=run_.step))
    return 0
