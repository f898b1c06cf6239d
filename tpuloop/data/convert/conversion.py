"""One conversion from its first shard to its manifest; started again, it goes on where it was."""

import dataclasses
import json
import sys
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Tuple

import tpuloop
from tpuloop.data.convert import workers
from tpuloop.data.convert.bar import Bar
from tpuloop.data.convert.input_kind import Batch, Input
from tpuloop.data.convert.journal import FILE_NAME as JOURNAL
from tpuloop.data.convert.journal import Finished, Journal, difference
from tpuloop.data.convert.plan import TEST, TRAIN, Job, held_out, jobs, shard_count
from tpuloop.data.convert.shard_writer import ShardWriter, remove_unfinished
from tpuloop.data.records import files, manifest, packing
from tpuloop.data.records.manifest import Manifest, ShardFile
from tpuloop.errors import UsageError
from tpuloop.paths import join

_NOTES = 10  # Bad units that are each told of; the rest are counted.


class Stopped(Exception):
    """The conversion was asked to stop. What it finished counts."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the records are to lie in files. The same input and layout give the same files, bit for bit.

    Attributes:
      shards: files of each split; None to follow from the input's size.
      examples_per_shard: the other way to say it.
      examples_per_record: of packed records.
      held_out: share of the examples that go into the split "test", at least 0 and below 1.
      seed: decides which.
    """

    shards: Optional[int] = None
    examples_per_shard: Optional[int] = None
    examples_per_record: int = packing.EXAMPLES_PER_RECORD
    held_out: float = 0.0
    seed: int = 0

    def __post_init__(self):
        for name in ("shards", "examples_per_shard", "examples_per_record"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1; it is {value}")
        if not 0 <= self.held_out < 1:
            raise UsageError(f"held_out must be at least 0 and below 1; it is {self.held_out}")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"seed must be an integer from 0 to 2**32 - 1; it is {self.seed}")


def check_folder(folder: str) -> None:
    """Before any work: whether a conversion can be in a folder, which need not be there.

    Raises:
      UsageError: where something else is.
    """
    if not files.exists(folder):
        return
    if not files.is_folder(folder):
        raise UsageError(f"--out={folder} is a file: give a folder")
    names = files.names_in(folder)
    if names and manifest.FILE_NAME not in names and JOURNAL not in names:
        raise UsageError(f"--out={folder} holds files of something else ({names[0]}): give an empty folder")


class Conversion:
    """Writes the records of an input into a folder.

    Args:
      data: the scanned input.
      folder: where to; made if missing, and otherwise empty or that of the same conversion.
      layout: of the records.
      options: plain data on what else the conversion depends on, for its identity and the manifest.
      count: worker processes.
      max_bad: units that may be left out because they cannot be used; None to fail at the first.
      stream: for the bar.
      stop: asked now and then whether to stop.
    """

    def __init__(
        self,
        *,
        data: Input,
        folder: str,
        layout: Layout,
        options: Mapping[str, Any],
        count: int,
        max_bad: Optional[int] = None,
        stream: Optional[IO[str]] = None,
        stop: Callable[[], bool] = lambda: False,
    ):
        if count < 1:
            raise UsageError(f"workers must be at least 1; it is {count}")
        self._data, self._folder, self._layout = data, folder, layout
        self._count, self._max_bad = count, max_bad
        self._stream = sys.stderr if stream is None else stream
        self._stop = stop
        contents = data.contents
        shards = shard_count(
            units=contents.units,
            input_bytes=contents.bytes,
            shards=layout.shards,
            per_shard=layout.examples_per_shard,
        )
        self._jobs = jobs(units=contents.units, count=shards, per_shard=layout.examples_per_shard)
        self._per_record = layout.examples_per_record if contents.kind == manifest.PACKED else 1
        self._made = {
            "by": "tpuloop data convert",
            "input": dict(contents.source),
            "options": {
                **options,
                "shards": shards,
                "examples_per_record": self._per_record,
                "held_out": layout.held_out,
                "seed": layout.seed,
            },
        }

    def finished(self) -> Optional[Manifest]:
        """The manifest in the folder, if this conversion is done.

        Raises:
          UsageError: where another one is.
        """
        if not files.exists(join(self._folder, manifest.FILE_NAME)):
            return None
        try:
            done = Manifest.load(self._folder)
        except UsageError as error:
            raise UsageError(f"{error} into another --out, or delete {self._folder} first") from error
        ours = {name: self._made[name] for name in ("input", "options")}
        told = difference({name: done.made.get(name) for name in ours}, _plain(ours))
        if told:
            raise UsageError(f"{self._folder} holds another conversion ({told}): use another --out")
        return done

    def run(self) -> Manifest:
        """Converts what is not converted yet.

        Raises:
          UsageError: for input that cannot be used, or too much of it; for another conversion in the folder.
          Stopped: when asked to.
          CannotWrite: where the disk does not take it.
          WorkerDied: where a worker was killed.
        """
        try:
            files.make_folder(self._folder)
        except OSError as error:
            raise UsageError(f"--out={self._folder} cannot be made: {error.strerror or error}") from error
        with Journal(folder=self._folder, identity={"version": tpuloop.__version__, **self._made}) as journal:
            remove_unfinished(self._folder)  # A full disk needs the room.
            done = journal.finished()
            try:
                self._convert_rest(journal, done)
            finally:
                remove_unfinished(self._folder)
            written = self._manifest([done[job.index] for job in self._jobs])
            for name, data in self._data.contents.files.items():
                files.write_atomically(join(self._folder, name), data)
            written.save(self._folder)
            journal.close_for_good()
        return written

    def _convert_rest(self, journal: Journal, done: Dict[int, Finished]) -> None:
        """Adds to `done` what is missing."""
        rest = [job for job in self._jobs if job.index not in done]
        contents = self._data.contents
        before = contents.units - sum(job.stop - job.start for job in rest)
        if done:
            print(f"going on: {len(done)} of {len(self._jobs)} shards are done", file=self._stream)
        bad = sum(finished.bad for finished in done.values())
        setting = _Setting(
            data=self._data,
            folder=self._folder,
            shards=len(self._jobs),
            examples_per_record=self._per_record,
            fraction=self._layout.held_out,
            seed=self._layout.seed,
            skips=self._max_bad is not None,
        )
        with Bar(total=contents.units, done=before, unit=contents.unit, stream=self._stream) as bar:
            if not rest:
                return
            with workers.Workers(work=_convert, setting=setting, jobs=rest, count=self._count) as pool:
                for news in pool.news():
                    if self._stop():
                        raise Stopped
                    if news is None:
                        continue
                    if news.kind == workers.ERROR:
                        raise news.value
                    if news.kind == workers.PROGRESS:
                        bar.add(news.value)
                    if news.kind == workers.NOTE:
                        bad += 1
                        self._check_bad(bad, news.value, bar)
                    if news.kind == workers.RESULT:
                        journal.add(news.value)
                        done[news.value.index] = news.value

    def _check_bad(self, bad: int, text: str, bar: Bar) -> None:
        assert self._max_bad is not None
        if bad > self._max_bad:
            raise UsageError(
                f"{text} (and {bad - 1} before it were left out, as many as --max_bad_records allows)"
                if bad > 1
                else text
            )
        if bad <= _NOTES:
            bar.say(f"warning: left out: {text}")

    def _manifest(self, done: List[Finished]) -> Manifest:
        contents = self._data.contents
        splits: Dict[str, Tuple[ShardFile, ...]] = {}
        for split in (TRAIN, TEST) if self._layout.held_out else (TRAIN,):
            splits[split] = tuple(finished.shards[split] for finished in done if split in finished.shards)
            if not splits[split]:
                raise UsageError(
                    f"no example is left for the split {split!r} of {contents.units} {contents.unit}: "
                    f"{'change --held_out or --seed' if self._layout.held_out else 'all were left out'}"
                )
        made = {**self._made, "left_out": sum(finished.bad for finished in done), **contents.made}
        return Manifest(
            features=contents.features,
            kind=contents.kind,
            examples_per_record=self._per_record,
            splits=splits,
            label=contents.label,
            classes=contents.classes,
            made=_plain(made),
        )


@dataclasses.dataclass(frozen=True)
class _Setting:
    """What a worker needs for all of its jobs."""

    data: Input
    folder: str
    shards: int
    examples_per_record: int
    fraction: float
    seed: int
    skips: bool


def _convert(setting: _Setting, job: Job, reporter: workers.Reporter) -> Finished:
    """One job, in a worker: a file for each split."""
    bad: List[str] = []

    def on_bad(text: str) -> None:
        if not setting.skips:
            raise UsageError(text)
        bad.append(text)
        reporter.note(text)

    def writer(split: str) -> ShardWriter:
        name = packing.shard_name(split, job.index, setting.shards)
        return ShardWriter(folder=setting.folder, name=name, examples_per_record=setting.examples_per_record)

    with writer(TRAIN) as train, writer(TEST) as test:
        for batch in setting.data.read(job.start, job.stop, on_bad=on_bad):
            if setting.fraction:
                out = held_out(batch.numbers, seed=setting.seed, fraction=setting.fraction)
                _add(train, batch, ~out)
                _add(test, batch, out)
            else:
                _add(train, batch, None)
            reporter.done(batch.units)
        writers = {TRAIN: train, TEST: test}
        for each in writers.values():
            each.complete()
        published = {split: each.publish() for split, each in writers.items()}
    return Finished(job.index, {split: file for split, file in published.items() if file is not None}, len(bad))


def _add(writer: ShardWriter, batch: Batch, chosen: Any) -> None:
    if batch.columns is not None:
        columns = batch.columns
        writer.add_columns(columns if chosen is None else {name: column[chosen] for name, column in columns.items()})
    elif batch.records is not None:
        records = batch.records
        writer.add_records(records if chosen is None else [record for record, yes in zip(records, chosen) if yes])


def _plain(value: Any) -> Any:
    """As it comes back from a file: tuples are lists there."""
    return json.loads(json.dumps(value))
