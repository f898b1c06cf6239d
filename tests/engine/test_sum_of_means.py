"""A loss of two means over different elements: values, gradients and curves, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean, SumOfMeans
from tpuloop.engine.trace import RunningMeans, StepTrace
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

# Four examples of two tokens each; three of the eight count. Example i is worth i + 1 as a whole.
TOKENS = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
COUNTS = np.array([[1, 0], [0, 0], [1, 1], [0, 0]], np.float32)
EXAMPLES = np.array([1, 2, 3, 4], np.float32)
TOKEN_MEAN = (1 + 5 + 6) / 3
EXAMPLE_MEAN = (1 + 2 + 3 + 4) / 4


class TwoLosses(TrainLoop):
    """w0 times the mean of the tokens that count, plus w1 times the mean of the examples."""

    def forward_loss(self, batch, *, training):
        tokens, counts, examples = batch
        w = tf.reshape(self.model.trainable_variables[0], [2])
        return SumOfMeans(token_loss=Mean(w[0] * tokens, counts), example_loss=Mean(w[1] * examples))


def two_losses(runtime, **settings):
    with runtime.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        model.build([None, 2])
        model.compile(tf.keras.optimizers.SGD(0.1))
    return TwoLosses(model, runtime=runtime, settings=LoopSettings(**settings))


def data():
    return tf.data.Dataset.from_tensor_slices((TOKENS, COUNTS, EXAMPLES)).batch(4, drop_remainder=True)


@pytest.mark.parametrize(
    "replicas, settings",
    [(1, {}), (2, {}), (4, {}), (1, {"accumulate_steps": 2}), (2, {"accumulate_steps": 2}), (2, {"loop": "host"})],
)
def test_each_part_is_divided_by_what_counts_in_it(runtimes, replicas, settings):
    loop = two_losses(runtimes(replicas), **settings)
    history = loop.fit(data(), steps=1)
    assert history.history["token_loss"] == [TOKEN_MEAN]
    assert history.history["example_loss"] == [EXAMPLE_MEAN]
    assert history.history["loss"] == [TOKEN_MEAN + EXAMPLE_MEAN]
    weights = loop.model.trainable_variables[0].numpy().ravel()
    np.testing.assert_allclose(weights, [1 - 0.1 * TOKEN_MEAN, 1 - 0.1 * EXAMPLE_MEAN], rtol=1e-6)


def test_float16_gives_the_same(runtimes):
    loop = two_losses(runtimes(2), accumulate_steps=2)
    loop.model.optimizer = tf.keras.mixed_precision.LossScaleOptimizer(loop.model.optimizer)
    loop.fit(data(), steps=1)
    weights = loop.model.trainable_variables[0].numpy().ravel()
    np.testing.assert_allclose(weights, [1 - 0.1 * TOKEN_MEAN, 1 - 0.1 * EXAMPLE_MEAN], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_an_evaluation_is_exact_at_any_batch_size(runtimes, size):
    # Batches of 3: one full and one of a single example, padded.
    loop = two_losses(runtimes(2))
    dataset = tf.data.Dataset.from_tensor_slices((TOKENS, COUNTS, EXAMPLES)).batch(size)
    assert loop.evaluate(dataset) == pytest.approx(
        {"loss": TOKEN_MEAN + EXAMPLE_MEAN, "token_loss": TOKEN_MEAN, "example_loss": EXAMPLE_MEAN}
    )


def test_a_regulariser_is_a_part_of_its_own(runtimes):
    loop = two_losses(runtimes(2))
    loop.model.add_loss(lambda: tf.reduce_sum(loop.model.trainable_variables[0]))
    history = loop.fit(data(), steps=1).history
    assert history["regularization_loss"] == [2.0]
    assert history["loss"] == [TOKEN_MEAN + EXAMPLE_MEAN + 2.0]
    weights = loop.model.trainable_variables[0].numpy().ravel()
    np.testing.assert_allclose(weights, [0.9 - 0.1 * TOKEN_MEAN, 0.9 - 0.1 * EXAMPLE_MEAN], rtol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"loop": "host"}])
def test_a_run_that_shall_end_on_nan_looks_at_every_part(runtimes, settings):
    loop = two_losses(runtimes(1), **settings)
    examples = np.array([1, np.nan, 3, 4], np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((TOKENS, COUNTS, examples)).batch(4).repeat(3)
    loop.fit(dataset, steps=3, callbacks=[tf.keras.callbacks.TerminateOnNaN()])
    assert int(loop.step) == 1


def test_a_curve_of_the_sum_and_its_mean_over_steps():
    trace = StepTrace.from_records(
        first_step=1,
        names=["a", "b"],
        sums=np.array([[6, 4, 3, 2], [2, 9, 1, 3]], np.float32),
        clock=np.zeros([2, 2]),
        ended=0.0,
        added={"loss": ("a", "b")},
    )
    assert trace.names == ["loss", "a", "b"]
    assert trace.values("loss").tolist() == [6 / 3 + 4 / 2, 2 / 1 + 9 / 3]
    means = RunningMeans()
    assert means.result() == {}
    means.add(trace)
    assert means.result() == {"loss": 8 / 4 + 13 / 5, "a": 8 / 4, "b": 13 / 5}


@pytest.mark.parametrize("name", ["loss", "token_loss"])
def test_a_part_must_have_a_name_of_its_own(runtimes, name):
    class Twice(TrainLoop):
        def forward_loss(self, batch, *, training):
            mean = Mean(self.model(batch[0], training=training))
            return SumOfMeans(**{name: mean}), {"token_loss": mean}

    with runtimes(1).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])])
    with pytest.raises(ValueError, match=f"two outputs of a step are called '{name}'"):
        Twice(model, optimizer="sgd").fit(data(), steps=1)


def test_what_makes_no_sum():
    with pytest.raises(ValueError, match="at least one part"):
        SumOfMeans()
    with pytest.raises(TypeError, match="the part 'inner' is a sum of means itself"):
        SumOfMeans(inner=SumOfMeans(a=Mean(tf.ones([2]))))


def test_a_part_for_which_nothing_counted_adds_nothing():
    trace = StepTrace.from_records(
        first_step=1,
        names=["a", "b"],
        sums=np.array([[0, 4, 0, 2], [0, 0, 0, 0]], np.float32),
        clock=np.zeros([2, 2]),
        ended=0.0,
        added={"loss": ("a", "b")},
    )
    assert trace.values("loss")[0] == 2.0 and np.isnan(trace.values("loss")[1])
    means = RunningMeans()
    means.add(trace)
    assert means.result()["loss"] == 2.0
