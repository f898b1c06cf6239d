"""Moving statistics of several replicas: a restart changes no bit, and an evaluation gives what it gives after one."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.replica_statistics import agree
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def data():
    draw = np.random.default_rng(0)
    return draw.normal(size=[32, 3]).astype(np.float32), draw.normal(size=[32, 1]).astype(np.float32)


def loop_in(workdir, runtime, **settings):
    tf.keras.utils.set_random_seed(2)
    with runtime.scope():
        model = tf.keras.Sequential([layers.Dense(4, input_shape=[3]), layers.BatchNormalization(), layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    return TrainLoop(model, runtime=runtime, workdir=str(workdir), settings=LoopSettings(save_every=2, **settings))


@pytest.mark.parametrize("settings", [{}, {"ema_decay": 0.9}])
def test_a_resumed_run_has_the_statistics_of_the_unbroken_one(runtimes, tmp_path, settings):
    def trained(workdir, *ends):
        for end in ends:
            loop = loop_in(workdir, runtimes(2), **settings)
            loop.fit(data(), batch_size=8, steps=end)
        return loop

    unbroken, resumed = trained(tmp_path / "one", 4), trained(tmp_path / "two", 2, 4)
    for one, other in zip(unbroken.model.get_weights(), resumed.model.get_weights()):
        np.testing.assert_array_equal(one, other)
    assert unbroken.evaluate(data(), batch_size=8) == resumed.evaluate(data(), batch_size=8)


def test_an_evaluation_gives_what_it_gives_after_a_restart(runtimes, tmp_path):
    loop = loop_in(tmp_path, runtimes(2))
    loop.fit(data(), batch_size=8, steps=3)
    again = loop_in(tmp_path, runtimes(2))
    assert again.restore() == 3
    assert again.evaluate(data(), batch_size=8) == loop.evaluate(data(), batch_size=8)


def test_each_replica_gets_the_mean_and_sums_stay(runtimes):
    strategy = runtimes(2).strategy
    with strategy.scope():
        mean, total = (
            tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=aggregation)
            for aggregation in (tf.VariableAggregation.MEAN, tf.VariableAggregation.SUM)
        )

        @tf.function
        def step():
            replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
            mean.assign(replica)
            total.assign(replica)

        strategy.run(step)
        agree([mean, total])
    assert [float(value) for value in strategy.experimental_local_results(mean)] == [0.5, 0.5]
    assert [float(value) for value in strategy.experimental_local_results(total)] == [0.0, 1.0]
