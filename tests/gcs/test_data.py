"""Data in a store: record files by pattern, converted folders, pictures."""

import numpy as np
import tensorflow as tf

from tpuloop.data.records.framing import frame
from tpuloop.data.records.manifest import Feature, Manifest, ShardFile
from tpuloop.data.records.packing import pack


def put_converted(store, folder, tmp_path, *, examples=160, shards=2):
    """A packed folder in the store, whose label is whether the first of two numbers is the larger one."""
    random = np.random.default_rng(0)
    files = []
    for shard in range(shards):
        x = random.normal(size=[examples // shards, 2]).astype(np.float32)
        rows = [slice(start, start + 16) for start in range(0, len(x), 16)]
        y = (x[:, 0] > x[:, 1]).astype(np.int64)
        content = b"".join(frame(pack({"x": x[part], "y": y[part]})) for part in rows)
        name = f"train-{shard}.tfrecord"
        store.put("bucket", f"{folder}/{name}", content)
        files.append(ShardFile(name, len(rows), len(x), len(content), 0))
    features = (Feature("x", "float32", (2,)), Feature("y", "int64"))
    manifest = Manifest(features, "packed", 16, {"train": files}, label="y", classes=("no", "yes"))
    manifest.save(str(tmp_path))
    store.put("bucket", f"{folder}/manifest.json", (tmp_path / "manifest.json").read_bytes())


def test_training_on_a_converted_folder(store, run, tmp_path):
    put_converted(store, "flowers", tmp_path)
    data = ("--data=records", "--config.data.path=gs://bucket//flowers/", "--model=mlp")
    result = run("train", *data, "--steps=60", "--global_batch=32", f"--workdir={tmp_path / 'run'}")
    assert result.status == 0, result.err
    assert float(result.out.split("accuracy ")[1].split(",")[0]) > 0.8
    # A bucket that is not there, and a folder that holds nothing.
    for path, expected in (("gs://nowhere/x", "nowhere"), ("gs://bucket/empty", "gs://bucket/empty holds no manifest")):
        result = run("train", "--data=records", f"--config.data.path={path}", f"--workdir={tmp_path / 'other'}")
        assert result.status == 2 and expected in result.err.splitlines()[-1], result.err


def test_records_by_a_pattern_and_their_order(store, python, tmp_path):
    for file in range(3):
        records = b"".join(frame(str(file * 10 + number).encode()) for number in range(10))
        store.put("bucket", f"records/part-{file}", records)
        (tmp_path / f"part-{file}").write_bytes(records)
    code = """
        import sys, tpuloop
        from tpuloop.errors import UsageError
        source = tpuloop.RecordSource.matching("PATTERN")
        for batch in source.batches(batch_size=4, seed=1, position=20).take(10):
            print(*[record.decode() for record in batch.numpy()])
    """
    there = python(code.replace("PATTERN", "gs://bucket/records/part-*"))
    assert there == python(code.replace("PATTERN", f"{tmp_path}/part-*"))
    assert len(there) == 10
    missing = """
        import tpuloop
        try:
            tpuloop.RecordSource.matching("gs://bucket/records/none-*")
        except tpuloop.UsageError as error:
            print(error)
    """
    (line,) = python(missing)
    assert line.startswith("no file matches gs://bucket/records/none-*: ")


def test_a_store_that_fails_while_records_are_read(store, python):
    store.put("bucket", "a.tfrecord", b"".join(frame(b"%d" % number) for number in range(20)))
    failed = []

    def fault(request):
        if request.kind == "read" and len(failed) < 2:
            failed.append(request)
            return 503
        return None

    store.fault = fault
    lines = python("""
        import tpuloop
        source = tpuloop.RecordSource.matching("gs://bucket/a.tfrecord", shuffle=False)
        print([int(record) for batch in source.one_pass(batch_size=8) for record in batch.numpy()])
    """)
    assert failed and lines == [str(list(range(20)))]


def test_pictures_of_a_folder(store, run, tmp_path):
    for number, name in enumerate(("cat", "dog")):
        picture = tf.io.encode_png(np.full([8, 8, 3], 200 * number, np.uint8)).numpy()
        for copy in range(4):
            store.put("bucket", f"pictures/{name}/{copy}.png", picture)
    data = ("--data=images", "--config.data.path=gs://bucket/pictures", "--config.data.size=8", "--model=mlp")
    fields = ("--config.data.held_out=0.0", "--config.data.augment=None")
    result = run("train", *data, *fields, "--steps=20", "--global_batch=4", f"--workdir={tmp_path / 'run'}")
    assert result.status == 0, result.err
    assert "training accuracy 1.0000" in result.out
