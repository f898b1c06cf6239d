"""Trains on data of every kind in processes that end themselves at a given step, and writes down what each step saw.

Takes a list of jobs as JSON, runs each in a fork of a process that has imported TensorFlow and nothing more, and prints
the exit statuses. A job: {"kind", "folder", "workdir", "log", "replicas", "kill": null or [step, signal]}; or with
"shard": [host, hosts] and "steps": [first, last], to write down what one host reads.
"""

import json
import os
import signal
import sys

import tensorflow as tf

import tpuloop.loop
from tpuloop.callbacks.progress import Callback
from tpuloop.checkpoint.notice import SignalNotice
from tpuloop.data.arrays import ArraySource
from tpuloop.data.lanes import RecordFile
from tpuloop.data.mixture import MixtureSource
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.record_source import RecordSource
from tpuloop.data.records.manifest import Feature
from tpuloop.data.shard import Shard
from tpuloop.runtime import Runtime
from tpuloop.settings import LoopSettings

BATCH, EPOCHS = 12, 3
PACKED, RECORDS = [22, 9, 31], [17, 0, 1, 30, 14]  # Examples in each file; their numbers are their ids.


def packed(folder):
    files = [RecordFile(f"{folder}/packed-{n}", -(-count // 4), count) for n, count in enumerate(PACKED)]
    return PackedSource(files, features=[Feature("id", "int32")], examples_per_record=4, window=32).map_batches(
        lambda batch: batch["id"], name="id"
    )


def records(folder):
    files = [RecordFile(f"{folder}/records-{n}", count, count) for n, count in enumerate(RECORDS)]
    return RecordSource(files, window=32).map_batches(lambda batch: tf.strings.to_number(batch, tf.int32))


def augmented(example, seed):
    """Exact in float32, as the step's outputs are."""
    return example * 1000 + tf.random.stateless_uniform([], seed, maxval=1000, dtype=tf.int32)


def dataset():
    """Shuffled anew in each pass, as TensorFlow does with a seed."""
    return tf.data.Dataset.range(60).shuffle(60, seed=3).batch(BATCH)


KINDS = {
    "arrays": lambda folder: ArraySource(tf.range(62).numpy()),
    "packed": packed,
    "records": records,
    "augmented": lambda folder: records(folder).map_examples(augmented),
    "mixture": lambda folder: MixtureSource([packed(folder).map_examples(augmented), records(folder)], weights=[2, 1]),
    "cached": lambda folder: packed(folder).cached().map_examples(augmented),
    "dataset": lambda folder: dataset(),
    "callable": lambda folder: dataset,
}


class SeesIds(tpuloop.loop.TrainLoop):
    """A step that tells the ids of its rows, by their place in the global batch."""

    @tf.autograph.experimental.do_not_convert
    def train_step(self, batch):
        ids = tf.cast(batch, tf.float32)
        rows = BATCH // self.runtime.replicas
        here = tf.distribute.get_replica_context().replica_id_in_sync_group
        at = tf.scatter_nd((here * rows + tf.range(rows))[:, None], ids, [BATCH])  # 0 for rows of other replicas.
        return {"loss": tf.constant(0.0), **{f"row {row}": value for row, value in enumerate(tf.unstack(at))}}


class Log(Callback):
    """Appends the ids of every step to a file, and ends the process behind a step."""

    def __init__(self, path, kill):
        super().__init__()
        self.path, self.kill = path, kill

    def next_boundary(self, step):
        return self.kill[0] if self.kill and self.kill[0] > step else None

    def on_steps_end(self, trace):
        rows = [trace.totals[f"row {row}"] for row in range(BATCH)]
        with open(self.path, "a") as file:
            for step, *ids in zip(trace.steps, *rows):
                print(int(step), *map(int, ids), file=file)
        if self.kill and trace.last_step >= self.kill[0]:
            os.kill(os.getpid(), getattr(signal, self.kill[1]))


def train(job):
    runtime = Runtime.detect(accelerator="cpu", replicas=job["replicas"])
    with runtime.scope():
        model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    settings = LoopSettings(seed=11, save_every=3, steps_per_loop=4)
    loop = SeesIds(model, runtime=runtime, workdir=job["workdir"], settings=settings)
    data = KINDS[job["kind"]](job["folder"])
    batch_size = None if job["kind"] in ("dataset", "callable") else BATCH
    with SignalNotice(lambda name: loop.request_stop()):
        loop.fit(data, batch_size=batch_size, epochs=EPOCHS, callbacks=[Log(job["log"], job["kill"])])


def read(job):
    """Writes down one host's rows of the batches of some steps, counted from 1."""
    first, last = job["steps"]
    data = KINDS[job["kind"]](job["folder"])
    batches = data.batches(batch_size=BATCH, seed=11, position=(first - 1) * BATCH, shard=Shard(*job["shard"]))
    with open(job["log"], "w") as file:
        for step, batch in enumerate(batches.take(last - first + 1), first):
            print(step, *batch.numpy().tolist(), file=file)


def main(jobs):
    statuses = []
    for job in jobs:
        child = os.fork()
        if child == 0:
            try:
                read(job) if "shard" in job else train(job)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)  # What the parent imported is not for the child to take down.
        _, status = os.waitpid(child, 0)
        statuses.append(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status))
    print(json.dumps(statuses))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
