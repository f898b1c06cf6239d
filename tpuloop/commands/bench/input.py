"""`tpuloop bench input`: what reading costs, against Python's csv module and a hand-tuned pipeline."""

import json
import logging
import tempfile
from typing import Any, Dict

from absl import flags

from tpuloop.commands import quiet
from tpuloop.commands.program import CommandFailed
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS
logger = logging.getLogger("tpuloop")

SUMMARY = "times reading and entering data against Python's csv module and a hand-tuned tf.data pipeline"

_PARTS = ("reading", "entering", "pictures", "converting")
_FILES = 16
_SHUFFLED = 10_000


def define_flags() -> None:
    """The flags of the command."""
    flags.DEFINE_list("parts", list(_PARTS), f"What to measure, of {', '.join(_PARTS)}.")
    flags.DEFINE_integer("repeats", 7, "Slices of each pipeline; they take turns.", lower_bound=1)
    flags.DEFINE_float("slice_seconds", 2.0, "About how long a slice takes.", lower_bound=0)
    flags.DEFINE_integer("batch", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("examples", 200_000, "Examples of 128 tokens to read.", lower_bound=1)
    flags.DEFINE_integer("packed_examples", 1_000_000, "Packed examples in the epoch to enter.", lower_bound=1)
    flags.DEFINE_integer("pictures", 100_000, "JPEGs in the epoch to enter.", lower_bound=1)
    flags.DEFINE_integer("csv_rows", 50_000, "Rows of the CSV file to convert.", lower_bound=1)
    flags.DEFINE_integer("conversions", 5, "Conversions of it, by each writer.", lower_bound=1)
    flags.DEFINE_string("folder", None, "Where to make a temporary folder for the data, of up to 1.2 GB.")
    flags.DEFINE_bool("json", False, "Print the measurements as JSON.")
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.")


def run() -> int:
    """Makes the data, measures, and prints the result."""
    unknown = set(FLAGS.parts) - set(_PARTS)
    if unknown or not FLAGS.parts:
        raise UsageError(f"--parts={','.join(FLAGS.parts)}: name some of {', '.join(_PARTS)}")
    smallest = min(FLAGS.examples, FLAGS.packed_examples, FLAGS.pictures)
    if smallest < FLAGS.batch:
        raise UsageError(f"--batch={FLAGS.batch} is more than the {smallest} examples to read: make it smaller")
    from tpuloop.commands.bench.machine import machine

    results: Dict[str, Any] = {"machine": machine()}  # Its load before ours.
    _load_tensorflow()
    from tpuloop.commands.bench.input_table import report
    from tpuloop.commands.bench.reading import Mismatch

    try:
        with tempfile.TemporaryDirectory(prefix="tpuloop-bench-", dir=FLAGS.folder) as folder:
            for part in _PARTS:
                if part in FLAGS.parts:
                    results[part] = _measure(part, folder)
    except Mismatch as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise UsageError(f"--folder={FLAGS.folder or tempfile.gettempdir()} cannot be used: {error}") from error
    print(json.dumps(results) if FLAGS.json else report(results))
    return 0


def _measure(part: str, folder: str) -> Dict[str, Any]:
    from tpuloop.commands.bench import entering, input_files, reading

    with tempfile.TemporaryDirectory(dir=folder) as own:  # Gone before the next part makes its data.
        if part == "reading":
            logger.info("reading: making %s examples", f"{FLAGS.examples:,}")
            return reading.race(
                input_files.write_tokens(own, count=FLAGS.examples, files=_FILES),
                batch=FLAGS.batch,
                shuffled=_SHUFFLED,
                repeats=FLAGS.repeats,
                slice_seconds=FLAGS.slice_seconds,
            )
        if part == "entering":
            logger.info("entering: making %s packed examples", f"{FLAGS.packed_examples:,}")
            ids = input_files.write_tokens(own, count=FLAGS.batch, files=1).ids
            files = input_files.write_packed(own, ids, count=FLAGS.packed_examples, files=_FILES)
            return entering.enter_packed(files, batch=FLAGS.batch, repeats=FLAGS.repeats)
        if part == "pictures":
            logger.info("pictures: making %s JPEGs", f"{FLAGS.pictures:,}")
            files = input_files.write_pictures(own, count=FLAGS.pictures, files=_FILES)
            return entering.enter_pictures(files, batch=FLAGS.batch, repeats=FLAGS.repeats)
        logger.info("converting: %s times, by two writers", FLAGS.conversions)
        return _convert(own)


def _convert(folder: str) -> Dict[str, Any]:
    from tpuloop.commands.bench.convert_race import convert_race
    from tpuloop.commands.cores import cores

    return convert_race(examples=FLAGS.csv_rows, workers=cores(), repeats=FLAGS.conversions)


def _load_tensorflow() -> None:
    """Without its noise, and without a GPU, whose memory it would take for nothing."""
    with quiet.quiet_start():
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
    quiet.filter_python_warnings()
