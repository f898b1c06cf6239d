"""`tpuloop data bench`: how fast a recipe's data comes, stage by stage, and how fast its step takes it."""

import dataclasses
import json
from typing import Any, Dict, List

from absl import flags

from tpuloop.commands import common_flags
from tpuloop.commands.program import DONE

FLAGS = flags.FLAGS

SUMMARY = "measures a recipe's data stage by stage against its training step, and names the bottleneck"


def define_flags() -> None:
    """The flags of the command."""
    flags.DEFINE_integer("repeats", 5, "Slices of each stage; they take turns.", lower_bound=1)
    flags.DEFINE_float("slice_seconds", 0.5, "About how long a slice takes.", lower_bound=0)
    flags.DEFINE_float("step_seconds", 1.5, "How long the training step runs on one batch.", lower_bound=0)
    flags.DEFINE_bool("json", False, "Print the measurements as JSON.")
    common_flags.define_recipe_flags()
    common_flags.define_runtime_flags()


def run() -> int:
    """Measures what the flags say, and prints the result."""
    from tpuloop.commands.bench.machine import machine

    recipe = common_flags.recipe_from_flags()
    measured_on = machine()  # Its load before ours.
    runtime = common_flags.runtime_from_flags()
    from tpuloop.commands import assemble
    from tpuloop.commands.data.pipeline import measured_stages, step_seconds, training_feed, what_is_read
    from tpuloop.commands.data.verdict import verdict
    from tpuloop.data.feed import resolved

    assemble.prepare(recipe)
    data_sets = assemble.load_data(recipe)
    assemble.global_batch(data_sets.train, recipe, asked=FLAGS.global_batch is not None)
    network = assemble.build_model(recipe, data_sets, runtime)
    assemble.check_fits(data_sets.train, network, what="the training data")
    loop = assemble.make_loop(recipe, network, runtime, workdir=None)
    data = resolved(data_sets.train)
    batch_size = assemble.batch_size(data, recipe.global_batch)
    feed = training_feed(loop, data, batch_size=batch_size)
    seconds, batch = step_seconds(loop, feed, seconds=FLAGS.step_seconds)
    stages = measured_stages(
        loop, data, feed, batch_size=batch_size, repeats=FLAGS.repeats, slice_seconds=FLAGS.slice_seconds
    )
    wanted = batch / seconds
    judged = verdict(stages, wanted=wanted, stored=what_is_read(data))
    results = {
        "machine": measured_on,
        "devices": runtime.why,
        "data": what_is_read(data),
        "batch": batch,
        "stages": [
            {**dataclasses.asdict(stage), "megabytes_per_second": stage.megabytes_per_second} for stage in stages
        ],
        "step": {"seconds": seconds, "examples_per_second": wanted},
        "verdict": dataclasses.asdict(judged),
    }
    print(json.dumps(results) if FLAGS.json else _report(results))
    return DONE


def _report(results: Dict[str, Any]) -> str:
    from tpuloop.commands.bench.rows import machine_lines
    from tpuloop.commands.data.verdict import DATASET

    step = results["step"]
    lines: List[str] = [
        *machine_lines(results["machine"]),
        f"Devices: {results['devices']}",
        f"Batches of {results['batch']}; each stage with all before it, running alone.",
        "",
        f"  {'':<16} {'examples/s':>12} {'MB/s':>10}",
    ]
    for stage in results["stages"]:
        rate, size = stage["examples_per_second"], stage["megabytes_per_second"]
        lines.append(f"  {stage['name']:<16} {rate:>12,.0f} {size:>10,.1f}")
    wanted = f"{step['examples_per_second']:>12,.0f}"
    lines.append(f"  {'the step takes':<16} {wanted} {'':>10} {step['seconds'] * 1e3:.3f} ms a step")
    if results["data"] == DATASET:
        lines.append("  The data is a tf.data.Dataset, whose stages cannot be told apart.")
    return "\n".join([*lines, "", results["verdict"]["sentence"]])
