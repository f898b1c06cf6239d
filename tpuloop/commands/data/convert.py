"""`tpuloop data convert INPUT... --out=DIR`: sharded record files, with a manifest, out of what people have."""

import contextlib
import dataclasses
import logging
import os
import signal
from typing import Any, Dict, Iterator, List, Optional, Sequence

from absl import flags

from tpuloop.checkpoint.notice import NOTICES, SignalNotice
from tpuloop.commands import quiet
from tpuloop.commands.cores import cores
from tpuloop.commands.program import DONE, STOPPED, CommandFailed
from tpuloop.data.convert.conversion import Conversion, Layout, Stopped, check_folder
from tpuloop.data.convert.input_kind import InputKind
from tpuloop.data.convert.kinds import all_kinds, kind_of
from tpuloop.data.convert.workers import WorkerDied
from tpuloop.data.records.manifest import Manifest
from tpuloop.errors import UsageError
from tpuloop.paths import files_matching, is_pattern, is_remote, join

FLAGS = flags.FLAGS
logger = logging.getLogger("tpuloop")

SUMMARY = "converts CSV, .npz, text, folders of images and TFRecords into sharded record files with a manifest"
POSITIONAL = "INPUT"


def define_flags() -> None:
    """The flags of the command, and those of each kind of input."""
    kinds = all_kinds()
    flags.DEFINE_string("out", None, "Folder to write into; the same command again goes on where it was.")
    flags.DEFINE_string("format", None, f"What the input is: {', '.join(kinds)}; by its name if not given.")
    flags.DEFINE_string("label", None, "Column or feature to predict; text becomes class numbers, in sorted order.")
    flags.DEFINE_list("drop", None, "Columns or features to leave out.")
    flags.DEFINE_integer("shards", None, "Files in each split; by default one for 16 MiB of input.", lower_bound=1)
    flags.DEFINE_integer("examples_per_shard", None, "The other way to say it.", lower_bound=1)
    flags.DEFINE_integer("examples_per_record", 64, "Examples in a packed record.", lower_bound=1)
    flags.DEFINE_float("held_out", 0.0, "Share of the examples to write as the split test.")
    flags.DEFINE_integer("seed", 0, "Seed of what is held out, and of the order of images.")
    flags.DEFINE_integer("workers", None, "Processes; by default one for each core.", lower_bound=1)
    flags.DEFINE_enum("on_bad_record", "fail", ["fail", "skip"], "What to do with input that cannot be used.")
    flags.DEFINE_integer("max_bad_records", 100, "With skip: fail if there are more.", lower_bound=0)
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.")
    for kind in kinds.values():
        kind.define_flags()


def run(paths: Sequence[str]) -> int:
    """Converts, and prints what was written."""
    if not paths:
        raise UsageError("name the input: tpuloop data convert INPUT... --out=DIR")
    if not FLAGS.out:
        raise UsageError("--out is missing: give a folder to write into")
    kinds = all_kinds()
    paths = _named(paths)
    kind = kind_of(paths, FLAGS.format, kinds)
    options = _options(kind, kinds)
    layout = Layout(
        shards=FLAGS.shards,
        examples_per_shard=FLAGS.examples_per_shard,
        examples_per_record=FLAGS.examples_per_record,
        held_out=FLAGS.held_out,
        seed=FLAGS.seed,
    )
    check_folder(FLAGS.out)
    _check_apart(FLAGS.out, paths)
    workers = FLAGS.workers or cores()
    stop = _Stop()
    try:
        with _raised(stop):
            data = kind.scan(
                paths, {**options, "seed": FLAGS.seed, "on_bad_record": FLAGS.on_bad_record}, workers=workers
            )
        conversion = Conversion(
            data=data,
            folder=FLAGS.out,
            layout=layout,
            options={"format": kind.name, **options},
            count=workers,
            max_bad=FLAGS.max_bad_records if FLAGS.on_bad_record == "skip" else None,
            stop=stop.asked,
        )
        done = conversion.finished()
        if done is not None:
            print(f"already converted: {_summary(done)}")
            return DONE
        with SignalNotice(stop):
            written = conversion.run()
    except Stopped:
        logger.info("stopped by %s; the same command goes on from here", stop.by)
        return STOPPED
    except (OSError, WorkerDied) as error:  # CannotWrite, the journal's disk, a file of the input that went away.
        raise CommandFailed(f"{error}; what is finished counts, and the same command goes on from there") from error
    print(f"wrote {_summary(written)}")
    return DONE


def _named(paths: Sequence[str]) -> List[str]:
    """The paths, with the files that a pattern fits in its place: in an object store no shell looks for them.

    Raises:
      UsageError: for a pattern that fits none.
    """
    named: List[str] = []
    for path in paths:
        if not is_pattern(path) or os.path.exists(path):  # What is there is meant, whatever its name; a folder too.
            named.append(path)
            continue
        with quiet.quiet_start():  # It loads TensorFlow.
            named += files_matching(path)
    return named


@dataclasses.dataclass
class _Stop:
    """Remembers that a signal came, and which."""

    by: Optional[str] = None

    def __call__(self, name: str) -> None:
        self.by = name

    def asked(self) -> bool:
        """Whether one came."""
        return self.by is not None


@contextlib.contextmanager
def _raised(stop: _Stop) -> Iterator[None]:
    """Signals end at once what has nothing to keep: they raise Stopped."""

    def handle(number: int, frame: Any) -> None:
        del frame
        stop(signal.Signals(number).name)
        raise Stopped

    taken = [number for number in NOTICES if signal.getsignal(number) is not signal.SIG_IGN]
    earlier = {number: signal.signal(number, handle) for number in taken}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _options(kind: InputKind, kinds: Dict[str, InputKind]) -> Dict[str, Any]:
    """The flags that this kind takes.

    Raises:
      UsageError: where one is given that it does not take.
    """
    for other in kinds.values():
        for name in other.flags:
            if name not in kind.flags and FLAGS[name].value is not None:
                takers = ", ".join(each.name for each in kinds.values() if name in each.flags)
                raise UsageError(f"--{name} has no effect on {kind.name} input: it is for {takers}")
    return {name: FLAGS[name].value for name in kind.flags}


def _check_apart(out: str, paths: Sequence[str]) -> None:
    """That no folder of the input would get the output as one of its own."""
    if is_remote(out):
        return
    for path in paths:
        if os.path.isdir(path) and os.path.realpath(out).startswith(os.path.join(os.path.realpath(path), "")):
            raise UsageError(f"--out={out} lies in the input {path}: give a folder beside it")


def _summary(manifest: Manifest) -> str:
    parts = []
    for split, shards in manifest.splits.items():
        parts.append(f"{manifest.examples(split):,} examples ({split}, {_counted(len(shards), 'file')})")
    left_out = manifest.made.get("left_out")
    more = f"; {left_out} left out" if left_out else ""
    return f"{' and '.join(parts)} to {join(FLAGS.out, '')}{more}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
