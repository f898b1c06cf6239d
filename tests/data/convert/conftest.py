"""Converting in tests, and reading what was written without the code that wrote it."""

import collections
import io
import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.convert.conversion import Conversion, Layout
from tpuloop.data.convert.kinds import all_kinds
from tpuloop.data.records.manifest import Manifest


def _scan(kind, *paths, on_bad="fail", seed=0, **options):
    """The scanned input, with flags by name."""
    kind = all_kinds()[kind]
    assert set(options) <= set(kind.flags)
    given = {**dict.fromkeys(kind.flags), **options, "seed": seed, "on_bad_record": on_bad}
    return kind.scan([str(path) for path in paths], given, workers=1)


def _read(data, start=0, stop=None, bad=None):
    """Numbers and values of a range of units, without workers; what is bad goes to the list, or is raised."""

    def on_bad(text):
        if bad is None:
            raise AssertionError(text)
        bad.append(text)

    batches = list(data.read(start, data.contents.units if stop is None else stop, on_bad=on_bad))
    numbers = np.concatenate([batch.numbers for batch in batches]).tolist()
    if batches[0].columns is None:
        return numbers, [record for batch in batches for record in batch.records]
    names = batches[0].columns
    return numbers, {name: np.concatenate([batch.columns[name] for batch in batches]) for name in names}


def _convert(data, folder, *, max_bad=None, workers=1, **layout):
    """Converts with real workers; the manifest, and what was said."""
    said = io.StringIO()
    conversion = Conversion(
        data=data,
        folder=str(folder),
        layout=Layout(**layout),
        options={},
        count=workers,
        max_bad=max_bad,
        stream=said,
    )
    return conversion.run(), said.getvalue()


def _packed(folder, split="train"):
    """All values of a split by feature, as TensorFlow's reader gives the records."""
    manifest = Manifest.load(str(folder))
    parts = collections.defaultdict(list)
    for shard in manifest.splits[split]:
        records = [record.numpy() for record in tf.data.TFRecordDataset(os.path.join(str(folder), shard.file))]
        assert len(records) == shard.records
        sizes = [np.prod(feature.shape, dtype=int) * np.dtype(feature.dtype).itemsize for feature in manifest.features]
        counts = [len(record) / sum(sizes) for record in records]
        assert counts[:-1] == [manifest.examples_per_record] * (len(counts) - 1)
        assert 0 < counts[-1] <= manifest.examples_per_record and sum(counts) == shard.examples
        for record, count in zip(records, counts):
            at = 0
            for feature, size in zip(manifest.features, sizes):
                end = at + int(count) * size
                parts[feature.name].append(np.frombuffer(record[at:end], feature.dtype).reshape([-1, *feature.shape]))
                at = end
    return {name: np.concatenate(values) for name, values in parts.items()}


def _contents_of(folder):
    """All files of a folder and their bytes."""
    return {name: open(os.path.join(str(folder), name), "rb").read() for name in sorted(os.listdir(str(folder)))}


def _fixture(function):
    return pytest.fixture(scope="session", name=function.__name__[1:])(lambda: function)


scan, read, convert, packed, contents_of = map(_fixture, (_scan, _read, _convert, _packed, _contents_of))
