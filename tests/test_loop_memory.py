"""Nothing is traced again and nothing is kept as epochs and evaluations go by."""

import collections
import gc

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

X = np.random.default_rng(0).normal(size=[28, 2]).astype(np.float32)
Y = X[:, :1]


def living():
    """How many objects of TensorFlow's Python knows, and how many functions its runtime holds."""
    gc.collect()
    kinds = (tf.Tensor, tf.Variable, tf.data.Dataset, tf.data.Iterator, tf.Graph, tf.distribute.DistributedIterator)
    types = collections.Counter(map(type, gc.get_objects()))
    objects = sum(count for kind, count in types.items() if issubclass(kind, kinds))
    return objects, len(context.context().list_function_names())


def data(*, known):
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    return batches if known else batches.filter(lambda *batch: True)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("known", [True, False])
def test_traces_objects_and_functions_do_not_grow(runtimes, replicas, known):
    traced = []

    def loss(y_true, y_pred):
        traced.append("once for each replica while a step is traced")
        return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)

    with runtimes(replicas).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
        model.compile("adam", loss, metrics=["mae"])
    loop = TrainLoop(model, settings=LoopSettings(steps_per_loop=3))
    seen = {}

    def watch(epoch, logs):
        if epoch in (2, 6):
            seen[epoch] = living()

    watch = tf.keras.callbacks.LambdaCallback(on_epoch_end=watch)
    held_out = data(known=known)
    loop.fit(data(known=known), epochs=8, eval_data=held_out, callbacks=[watch])
    loop.evaluate(held_out)
    assert len(traced) == 2 * replicas  # One step that trains, one that evaluates.
    # Calls of 3, 3 and 1 steps over training data, of 7 over held-out data, known or not.
    assert [engine.function.experimental_get_tracing_count() for engine in loop._engines._made.values()] == [1, 1]
    assert seen[2] == seen[6]


def test_one_trace_for_boundaries_of_every_kind(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile("adam", "mse")
    settings = LoopSettings(steps_per_loop="auto", save_every=11)
    loop = TrainLoop(model, workdir=str(tmp_path), settings=settings)
    loop.fit((X, Y), batch_size=4, steps=150, eval_data=(X, Y), eval_every=40)
    loop.fit((X, Y), batch_size=4, steps=200, eval_data=(X, Y))
    assert [engine.function.experimental_get_tracing_count() for engine in loop._engines._made.values()] == [1, 1]
