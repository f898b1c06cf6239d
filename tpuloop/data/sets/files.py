"""Data sets of files that people have: tables, arrays, labelled text, BERT's pre-training files."""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from tpuloop import paths
from tpuloop.data.arrays import ArraySource
from tpuloop.data.bad_records import MOST, with_policy
from tpuloop.data.cache import free_memory
from tpuloop.data.checks import DataError
from tpuloop.data.convert.csv_input import CsvKind
from tpuloop.data.convert.input_kind import Input, InputKind
from tpuloop.data.convert.npz_input import NpzKind
from tpuloop.data.convert.plan import held_out as is_held_out
from tpuloop.data.convert.text_input import JsonLinesKind
from tpuloop.data.index import counted
from tpuloop.data.record_source import RecordSource
from tpuloop.data.sets.registry import DataSets
from tpuloop.data.source import Source
from tpuloop.data.text.bert_files import bert_lengths, parse_bert
from tpuloop.errors import UsageError

Files = Union[str, Sequence[str]]

_FLAGS = re.compile(r"--(?=(?:label|drop|columns|header|delimiter|vocab|vocab_size|text_field|sequence_length)\b)")
_EXPANSION = 4  # Memory that input takes, by its size in a file, with what is held while it is read.


def csv(
    *,
    path: Files,
    label: str,
    drop: Files = (),
    columns: Optional[str] = None,
    header: Optional[str] = None,
    delimiter: Optional[str] = None,
    held_out: float = 0.1,
    seed: int = 0,
    num_classes: Optional[int] = None,
) -> DataSets:
    """A table of numbers in CSV files, read into memory. Larger ones want `tpuloop data convert`.

    `x` is float32 of shape [columns], `y` the label: int64, by names in sorted order where it is text.

    Args:
      path: files or patterns.
      label: the column to predict.
      drop: columns to leave out, in one string with commas or several.
      columns, header, delimiter: as the flags of `tpuloop data convert`.
      held_out: the share to evaluate on, each row by a hash of (seed, row).
      seed: of what is held out; not the run's.
      num_classes: by default the largest label or the names say.

    Raises:
      UsageError: for a file that cannot be used, naming row, column and remedy.
    """
    options = {
        "label": label,
        "drop": drop if isinstance(drop, str) else list(drop),
        "columns": columns,
        "header": header,
        "delimiter": delimiter,
    }
    return _in_memory(CsvKind(), path, options, held_out=held_out, seed=seed, num_classes=num_classes)


def npz(
    *,
    path: Files,
    label: str = "y",
    drop: Files = (),
    held_out: float = 0.1,
    seed: int = 0,
    num_classes: Optional[int] = None,
) -> DataSets:
    """Arrays in NumPy's .npz files, read into memory: `label` is what to predict, one other array is `x`.

    Args:
      path, drop, held_out, seed, num_classes: as for `csv`.
      label: the array to predict.

    Raises:
      UsageError: for a file that cannot be used.
    """
    options = {"label": label, "drop": drop if isinstance(drop, str) else list(drop)}
    return _in_memory(NpzKind(), path, options, held_out=held_out, seed=seed, num_classes=num_classes)


def jsonl(
    *,
    path: Files,
    label: str = "label",
    text_field: str = "text",
    vocab: Optional[str] = None,
    vocab_size: Optional[int] = None,
    lower_case: bool = True,
    sequence_length: int = 128,
    held_out: float = 0.1,
    seed: int = 0,
    num_classes: Optional[int] = None,
) -> DataSets:
    """Labelled text in JSON lines, tokenized and read into memory.

    `x` is a dict of `input_ids`, `input_mask` and `segment_ids`, int32 of shape [sequence_length]; `y` the label.

    Args:
      path, held_out, seed, num_classes: as for `csv`.
      label, text_field: the fields of a line.
      vocab: a WordPiece vocabulary, BERT's vocab.txt; or
      vocab_size: the tokens of one to be trained on the text.
      lower_case: whether text is lower-cased, as the vocabulary must be.
      sequence_length: tokens of an example; longer text is cut off.

    Raises:
      UsageError: for a file that cannot be used, naming the line; where the package `tokenizers` is missing.
    """
    options = {
        "label": label,
        "text_field": text_field,
        "vocab": vocab,
        "vocab_size": vocab_size,
        "lower_case": lower_case,
        "sequence_length": sequence_length,
    }
    return _in_memory(JsonLinesKind(), path, options, held_out=held_out, seed=seed, num_classes=num_classes)


def bert(
    *,
    path: Files,
    evaluation: Optional[Files] = None,
    vocab_size: int = 30522,
    on_bad_record: str = "fail",
    max_bad_records: int = MOST,
) -> DataSets:
    """BERT's pre-training files: TFRecords with the feature names of the original release.

    Examples are dicts, see `text.bert_files.parse_bert`.

    Args:
      path: files or patterns, such as gs://BUCKET/wiki/*.tfrecord.
      evaluation: likewise of what is held out.
      vocab_size: of the vocabulary that the files were made with; 30522 is that of bert-base-uncased.
      on_bad_record, max_bad_records: see `bad_records.with_policy`.

    Raises:
      UsageError: where a pattern matches nothing, or a file holds something else.
    """
    train_files = paths.files_matching(path)
    sequence_length, max_predictions = bert_lengths(train_files[0])

    def source(files: List[str]) -> Source:
        def parse(serialized: Any) -> Any:
            return parse_bert(serialized, sequence_length=sequence_length, max_predictions=max_predictions)

        parsed = RecordSource(counted(files, damaged=on_bad_record == "skip")).map_batches(parse, name="parse")
        return with_policy(parsed, on_bad_record=on_bad_record, max_bad_records=max_bad_records)

    train = source(train_files)
    held_out = None if evaluation is None else source(paths.files_matching(evaluation))
    held = "none held out" if held_out is None else f"{held_out.size:,} held out"
    return DataSets(
        train=train,
        evaluation=held_out,
        model_arguments={
            "vocab_size": vocab_size,
            "sequence_length": sequence_length,
            "max_predictions": max_predictions,
            "task": "pretraining",
        },
        description=f"{train.size:,} sequences to train on, {held}",
    )


def _in_memory(
    kind: InputKind,
    path: Files,
    options: Mapping[str, Any],
    *,
    held_out: float,
    seed: int,
    num_classes: Optional[int],
) -> DataSets:
    """All examples of some files as arrays, the held-out ones apart."""
    if not 0 <= held_out < 1:
        raise DataError(f"held_out must be a share of at least 0 and below 1; it is {held_out!r}")
    given: Dict[str, Any] = {**dict.fromkeys(kind.flags), **options}
    if isinstance(given.get("drop"), str):
        given["drop"] = given["drop"].split(",")
    try:
        data = kind.scan(paths.files_matching(path), {**given, "seed": seed, "on_bad_record": "fail"}, workers=1)
    except UsageError as error:
        raise UsageError(_of_fields(str(error))) from error
    contents = data.contents
    free = free_memory()
    if free is not None and _EXPANSION * contents.bytes > free:
        raise DataError(f"{path} is too large to be read into memory: use tpuloop data convert, and --data=records")
    numbers, columns = _read(data)
    test = is_held_out(numbers, seed=seed, fraction=held_out)
    if contents.label is None:
        raise DataError(f"{path} has no label")
    names = [name for name in columns if name != contents.label]
    y = columns[contents.label]

    def part(rows: np.ndarray) -> Any:
        x = {name: columns[name][rows] for name in names}
        return (x[names[0]] if len(names) == 1 else x), y[rows]

    if test.all() or held_out and not test.any():
        raise DataError(f"{len(test)} examples are too few to hold out a share of {held_out}: change held_out or seed")
    arguments: Dict[str, Any] = {}
    if len(names) == 1:
        arguments["input_shape"] = columns[names[0]].shape[1:]
    if "input_ids" in columns:
        arguments.update(contents.made["text"], sequence_length=columns["input_ids"].shape[1])
        arguments = {name: arguments[name] for name in ("vocab_size", "sequence_length")}
        arguments["task"] = "classification"
    if np.issubdtype(y.dtype, np.integer):
        arguments["num_classes"] = num_classes or len(contents.classes or ()) or int(y.max()) + 1
    return DataSets(
        train=ArraySource(part(~test)),
        evaluation=ArraySource(part(test)) if held_out else None,
        model_arguments=arguments,
        description=f"{int((~test).sum()):,} examples to train on, {int(test.sum()):,} held out",
    )


def _read(data: Input) -> Any:
    """The number of each example, and the arrays of all."""
    batches = list(data.read(0, data.contents.units, on_bad=_refuse))
    columns = [batch.columns for batch in batches if batch.columns is not None]
    if not columns:
        raise DataError("the data cannot be held as arrays: use tpuloop data convert, and --data=records")
    numbers = np.concatenate([batch.numbers for batch in batches if batch.columns is not None])
    return numbers, {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}


def _refuse(reason: str) -> None:
    raise UsageError(_of_fields(reason))


def _of_fields(reason: str) -> str:
    """What is said of a conversion's flags, of the fields in their place."""
    reason = reason.replace("(--on_bad_record", "(tpuloop data convert --on_bad_record")
    return _FLAGS.sub("--config.data.", reason)
