"""`tpuloop data inspect PATH...`: what is in data files, and what a training run would stumble over."""

from typing import Any, List, Sequence, Tuple

from absl import flags

from tpuloop.commands.cores import cores
from tpuloop.commands.program import DONE, FAILED
from tpuloop.errors import UsageError

FLAGS = flags.FLAGS

SUMMARY = "shows what is in data files, a few examples, and what a run would stumble over; --verify reads it all"
POSITIONAL = "PATH"

_MOST_SHOWN = 20  # Faults of one file.
_MOST_ON_A_SHEET = 64


def define_flags() -> None:
    """The flags of the command."""
    flags.DEFINE_integer("examples", 3, "Examples to show.", lower_bound=0)
    flags.DEFINE_integer("look_at", 1000, "Examples to look into, over all files of a path.", lower_bound=1)
    flags.DEFINE_string("sheet", None, "PNG file to write pictures of the first examples to.")
    flags.DEFINE_bool("verify", False, "Read all records and compare every checksum, sizes and counts too.")
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.")


def run(patterns: Sequence[str]) -> int:
    """Inspects every path, and returns 1 where something is damaged."""
    if not patterns:
        raise UsageError("name what to inspect: tpuloop data inspect PATH...")
    from tpuloop.commands import quiet
    from tpuloop.commands.data.inspection import Inspection, grouped

    with quiet.quiet_start():  # Looking for files that are not here loads TensorFlow.
        groups = list(grouped(patterns))
    damaged = False
    pictures: List[Any] = []
    for number, group in enumerate(groups):
        keep = max(FLAGS.examples, _MOST_ON_A_SHEET if FLAGS.sheet else 0)
        inspection = Inspection(group, look_at=FLAGS.look_at, keep=keep)
        faults = inspection.faults + (inspection.verify(processes=cores()) if FLAGS.verify else [])
        print("\n".join([*([""] if number else []), *inspection.lines(examples=FLAGS.examples)]))
        for path, reasons in faults:
            _print_faults(path, reasons)
        if FLAGS.verify and inspection.has_records and not faults:
            print(f"  verified: {inspection.verified_records:,} records, every checksum is right")
        damaged = damaged or bool(faults)
        pictures += inspection.pictures() if FLAGS.sheet else []
    if FLAGS.sheet:
        _write_sheet(pictures)
    return FAILED if damaged else DONE


def _print_faults(path: str, reasons: Sequence[str]) -> None:
    for reason in reasons[:_MOST_SHOWN]:
        print(f"  DAMAGED {path}, {reason}")
    if len(reasons) > _MOST_SHOWN:
        print(f"  DAMAGED {path}, and {len(reasons) - _MOST_SHOWN} faults more")


def _write_sheet(pictures: Sequence[Tuple[Any, int]]) -> None:
    if not pictures:
        raise UsageError(
            f"--sheet={FLAGS.sheet}: the examples hold no pictures (JPEG, PNG, or arrays of two dimensions)"
        )
    from tpuloop.commands import quiet

    with quiet.quiet_start():
        from tpuloop.commands.data.sheet_file import write_sheet

        written = write_sheet(FLAGS.sheet, pictures[:_MOST_ON_A_SHEET])
    print(f"\nwrote {written} pictures to {FLAGS.sheet}")
