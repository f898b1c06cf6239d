"""`tpuloop bench models`: what a training step of our models costs, against the same of Keras's layers."""

import importlib
import json

from absl import flags

from tpuloop.commands import common_flags
from tpuloop.commands.recipe import check_choice

FLAGS = flags.FLAGS

SUMMARY = "times training steps of ResNet-50 and BERT against the same of Keras's layers"


def define_flags() -> None:
    """The flags of the command."""
    flags.DEFINE_integer("repeats", 15, "Steps of each model; they take turns.", lower_bound=1)
    flags.DEFINE_integer("images", 8, "Images of a batch.", lower_bound=1)
    flags.DEFINE_integer("image_size", 224, "Height and width of an image, in pixels.", lower_bound=32)
    flags.DEFINE_string("bert", "bert_mini", "Which BERT.")
    flags.DEFINE_integer("sequences", 16, "Sequences of a batch.", lower_bound=1)
    flags.DEFINE_integer("sequence_length", 128, "Tokens of a sequence.", lower_bound=1, upper_bound=512)
    flags.DEFINE_bool("json", False, "Print the measurements as JSON.")
    common_flags.define_runtime_flags()


def run() -> int:
    """Measures and prints the result."""
    models = importlib.import_module("tpuloop.models")
    check_choice("--bert", FLAGS.bert, [name for name in models.REGISTRY if name.startswith("bert_")])
    from tpuloop.commands.bench.machine import machine
    from tpuloop.commands.bench.model_table import report

    measured_on = machine()  # Its load before ours.
    common_flags.runtime_from_flags()
    from tpuloop.commands.bench.matmul_peak import matmul_peak
    from tpuloop.commands.bench.model_race import bert_race, resnet_race

    before = matmul_peak()
    races = [
        bert_race(
            models, name=FLAGS.bert, sequences=FLAGS.sequences, length=FLAGS.sequence_length, repeats=FLAGS.repeats
        ),
        resnet_race(models, images=FLAGS.images, size=FLAGS.image_size, repeats=FLAGS.repeats),
    ]
    # A machine that others slow down for a while has its peak at one of the two times.
    results = {"machine": measured_on, "matmul_flops_per_second": max(before, matmul_peak()), "races": races}
    print(json.dumps(results) if FLAGS.json else report(results))
    return 0
