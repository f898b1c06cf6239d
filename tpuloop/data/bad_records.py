"""Leaving out records that cannot be used, counted, and up to a number.

All records are read once through the whole pipeline before training, and those that fail are left out of the order.
So a position means the same in every run over the same files.
"""

import dataclasses
import logging
from typing import List, Optional, Sequence, Tuple

from tpuloop.data.checks import DataError
from tpuloop.data.faults import ERRORS, Fault, find_fault, said
from tpuloop.data.file_source import FileSource
from tpuloop.data.lanes import RecordFile
from tpuloop.data.mapped import Map
from tpuloop.data.source import Source

logger = logging.getLogger("tpuloop")

POLICIES = ("fail", "skip")
MOST = 100

_AT_ONCE = 256
_NAMED = 5


def with_policy(source: Source, *, on_bad_record: str = "fail", max_bad_records: int = MOST) -> Source:
    """`source`, without its bad records if they are to be skipped.

    Args:
      source: of record files, perhaps with functions over them.
      on_bad_record: "fail" leaves a record that cannot be read, parsed or decoded to end the run with its name; "skip"
        reads all records once, now, and leaves such out.
      max_bad_records: more than so many are an error.

    Raises:
      DataError: for another policy, a source without records, and too many bad ones, with the first of them.
    """
    if on_bad_record not in POLICIES:
        raise DataError(f"on_bad_record is {on_bad_record!r}: it must be fail or skip")
    return source if on_bad_record == "fail" else _without_bad(source, most=max_bad_records)


def _without_bad(source: Source, *, most: int) -> Source:
    records = source.stages()[0][1]
    if not isinstance(records, FileSource):
        raise DataError("on_bad_record=skip needs record files: this data has no records to skip")
    logger.info("looking at all records once, to leave out those that cannot be used")
    if _first_fault(source) is None:
        return source
    files: Sequence[RecordFile] = records.files
    faults: List[Fault] = []
    # Stage by stage: what is wrong for one says nothing of the records before it in the stages behind.
    for stages in range(1, len(source.stages()) + 1):
        files = _usable(source, files, stages=stages, faults=faults, most=most)
    good = _over(source, records.over(files))
    _say(faults, records.size - good.size, records.size)
    return good


def _usable(
    source: Source, files: Sequence[RecordFile], *, stages: int, faults: List[Fault], most: int
) -> List[RecordFile]:
    """The records of some files that pass the first stages of a source; adds what is wrong with the others.

    Args:
      stages: how many, of which only the last can fail.
    """
    records = source.stages()[0][1]
    assert isinstance(records, FileSource)
    good: List[RecordFile] = []
    rest = [file for file in files if file.records]
    while rest:
        remaining = _over(source, records.over(rest), stages=stages)
        # The records themselves are looked at without a pipeline, which takes a second to make.
        fault = remaining.find_fault() if stages == 1 else _first_fault(remaining)
        if fault is None:
            return [*good, *rest]
        faults.append(fault)
        if len(faults) > most:
            raise DataError(
                f"more than {most} bad records, the first of them {faults[0]}: mend the files, or raise max_bad_records"
            )
        before, rest = _cut(rest, fault, records.order.examples_per_record)
        good.extend(before)
    return good


def _first_fault(source: Source) -> Optional[Fault]:
    """The first bad record; reads all once, and again only what lies before the bad one."""
    good = 0
    try:
        for _ in source.numbered_pass(batch_size=_AT_ONCE):
            good += 1
    except ERRORS as error:
        fault = find_fault(source, lambda stage: stage.numbered_pass(batch_size=_AT_ONCE).take(good + 1))
        if fault is None:
            raise DataError(f"a record cannot be used, and it is not known which: {said(error)}") from error
        return fault
    return None


def _over(source: Source, records: FileSource, *, stages: Optional[int] = None) -> Source:
    """The stages of a source, or the first of them, over other records."""
    rebuilt: Source = records
    for _, stage in source.stages()[1:stages]:
        if not isinstance(stage, Map):
            raise DataError("on_bad_record=skip needs a source whose stages are functions over records")
        rebuilt = stage.over(rebuilt)
    return rebuilt


def _cut(files: Sequence[RecordFile], fault: Fault, per_record: int) -> Tuple[List[RecordFile], List[RecordFile]]:
    """What lies before the bad record, and what lies behind it."""
    before: List[RecordFile] = []
    number = fault.number
    for place, file in enumerate(files):
        if number >= file.examples:
            number -= file.examples
            before.append(file)
            continue
        record = number // per_record
        head = dataclasses.replace(file, records=record, examples=record * per_record)
        bad = file.examples - head.examples if fault.rest else min(per_record, file.examples - head.examples)
        behind = record + (file.records - record if fault.rest else 1)
        tail = RecordFile(
            file.path, file.records - behind, file.examples - head.examples - bad, first=file.first + behind
        )
        rest = [tail] if tail.records else []
        return [*before, head], [*rest, *files[place + 1 :]]
    raise IndexError(fault.number)


def _say(faults: List[Fault], lost: int, size: int) -> None:
    if not faults:
        return
    named = "; ".join(str(fault) for fault in faults[:_NAMED])
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    logger.warning("left out %d bad records with %d of %d examples: %s%s", len(faults), lost, size, named, more)
