"""`evaluate` counts every example once at any batch size and replica count, and disturbs nothing."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean
from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dataset(*arrays, size=4):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(size)


def classifier(runtime=None):
    def make():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential(
            [
                layers.Dense(6, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.1), input_shape=(3,)),
                layers.Dropout(0.5),
                layers.Dense(3, activation="softmax"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
        return model

    if runtime is None:
        return make()
    with runtime.scope():
        return make()


X, Y = numbers(9, 3), np.arange(9) % 3
WEIGHTS = np.array([1, 2, 0, 1, 0.5, 3, 1, 1, 7], np.float32)


def keras_values(data):
    return classifier().evaluate(data, verbose=0, return_dict=True)


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_nine_weighted_examples_in_batches_of_four(runtimes, replicas):
    data = dataset(X, Y, WEIGHTS)
    found = TrainLoop(classifier(runtimes(replicas))).evaluate(data)
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in keras_values(data).items()}
    assert all(type(value) is float for value in found.values())


@pytest.mark.parametrize("batch_size", [1, 2, 9, 100])
def test_any_batch_size_gives_the_same(batch_size):
    found = TrainLoop(classifier()).evaluate(X, Y, WEIGHTS, batch_size=batch_size)
    expected = keras_values(dataset(X, Y, WEIGHTS, size=9))
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}


def test_data_whose_length_or_batch_size_is_not_known(runtimes):
    data = dataset(X, Y, WEIGHTS).filter(lambda *batch: True)
    assert int(data.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    found = TrainLoop(classifier(runtimes(2))).evaluate(data)
    expected = keras_values(dataset(X, Y, WEIGHTS))
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}


def test_steps_take_the_first_batches_only():
    loop = TrainLoop(classifier())
    two = keras_values(dataset(X[:8], Y[:8]))
    assert loop.evaluate(dataset(X, Y), steps=2) == {
        name: pytest.approx(value, rel=1e-6) for name, value in two.items()
    }
    assert loop.evaluate(dataset(X, Y).repeat(), steps=2)["loss"] == pytest.approx(two["loss"], rel=1e-6)
    whole = loop.evaluate(dataset(X, Y))
    assert loop.evaluate(dataset(X, Y), steps=1000) == whole


def test_metrics_that_pad_badly(runtimes):
    # A confusion matrix and a curve look at labels and weights their own way; a padded row must count in none.
    def make():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([layers.Dense(1, activation="sigmoid", input_shape=(3,))])
        model.compile(
            "sgd",
            "binary_crossentropy",
            metrics=[tf.keras.metrics.AUC(name="auc"), tf.keras.metrics.BinaryIoU(name="iou"), "accuracy"],
            weighted_metrics=[tf.keras.metrics.Recall(name="recall"), tf.keras.metrics.TruePositives(name="hits")],
        )
        return model

    data = dataset(X, (Y > 0).astype(np.float32)[:, None], WEIGHTS)
    expected = make().evaluate(data, verbose=0, return_dict=True)
    with runtimes(2).scope():
        model = make()
    found = TrainLoop(model).evaluate(data)
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}


@pytest.mark.parametrize("replicas, count", [(1, 9), (1, 10), (2, 10)])
def test_what_a_model_adds_for_itself(runtimes, replicas, count):
    def make():
        tf.keras.utils.set_random_seed(1)
        inputs = tf.keras.Input([3])
        hidden = layers.Dense(4, activity_regularizer=tf.keras.regularizers.L2(0.1))(inputs)
        model = tf.keras.Model(inputs, layers.Dense(2)(hidden))
        model.add_loss(tf.reduce_mean(tf.square(hidden)))
        model.add_metric(tf.reduce_mean(hidden), name="hidden", aggregation="mean")
        model.compile("sgd", "mse")
        return model

    data = dataset(numbers(count, 3), numbers(count, 2, seed=1))
    expected = make().evaluate(data, verbose=0, return_dict=True)
    with runtimes(replicas).scope():
        model = make()
    found = TrainLoop(model).evaluate(data)
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}


class TokenLoop(TrainLoop):
    """A mean over tokens, with weights; and values by example."""

    def forward_loss(self, batch, *, training):
        x, y = batch
        errors = tf.abs(self.model(x, training=training) - y)
        weights = tf.cast(y > 0, tf.float32)
        return Mean(errors, weights), {"plain": Mean(tf.reduce_sum(errors, axis=-1)), "tokens": Mean(weights)}


@pytest.mark.parametrize("replicas", [1, 2])
def test_means_of_ones_own_are_exact_on_padded_batches(runtimes, replicas):
    x, y = numbers(9, 3), numbers(9, 4, seed=1)
    with runtimes(replicas).scope():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([layers.Dense(4, input_shape=(3,))])
    errors = np.abs(x @ model.get_weights()[0] - y)
    found = TokenLoop(model).evaluate(dataset(x, y))
    assert found == {
        "loss": pytest.approx(errors[y > 0].mean(), rel=1e-6),
        "plain": pytest.approx(errors.sum(axis=-1).mean(), rel=1e-6),
        "tokens": pytest.approx((y > 0).mean(), rel=1e-6),
    }


def test_values_only_and_a_metric_that_is_given_the_mask():
    class OwnMetric(TrainLoop):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.largest = tf.keras.metrics.Mean(name="largest")

        def eval_step(self, batch):
            x, y = batch
            errors = tf.abs(self.model(x, training=False) - y)
            self.largest.update_state(tf.reduce_max(errors, axis=-1), sample_weight=self.example_mask())
            return {"error": errors}

    x, y = numbers(9, 3), numbers(9, 4, seed=1)
    model = tf.keras.Sequential([layers.Dense(4, input_shape=(3,))])
    errors = np.abs(x @ model.get_weights()[0] - y)
    assert OwnMetric(model).evaluate(dataset(x, y)) == {
        "error": pytest.approx(errors.mean(), rel=1e-6),
        "largest": pytest.approx(errors.max(axis=-1).mean(), rel=1e-6),
    }


def test_a_scalar_cannot_be_exact_and_is_refused():
    class Scalar(TrainLoop):
        def forward_loss(self, batch, *, training):
            return tf.reduce_mean(self.model(batch[0]))

    model = tf.keras.Sequential([layers.Dense(4, input_shape=(3,))])
    with pytest.raises(ValueError, match="a scalar cannot be averaged exactly over a padded batch"):
        Scalar(model).evaluate(dataset(X, Y))


@pytest.mark.slow
def test_an_evaluation_in_the_middle_of_an_epoch_changes_no_bit_of_the_training(runtimes):
    data = dataset(numbers(40, 3), np.arange(40) % 3, np.linspace(0, 2, 40).astype(np.float32))
    for replicas in (1, 2):
        results = []
        for evaluated in ({}, {"eval_data": dataset(X, Y), "eval_every": 3}):
            model = classifier(runtimes(replicas))
            loop = TrainLoop(model, settings=LoopSettings(steps_per_loop=2))
            history = loop.fit(data, epochs=2, **evaluated).history
            results.append(([weights.tobytes() for weights in model.get_weights()], history))
        (weights, history), (weights_evaluated, history_evaluated) = results
        assert weights == weights_evaluated
        assert history == {name: history_evaluated[name] for name in history}
        assert set(history_evaluated) - set(history) == {f"val_{name}" for name in history}


def test_evaluate_leaves_the_metrics_of_training_as_they_are():
    model = classifier()
    loop = TrainLoop(model)
    loop.fit(dataset(X, Y))
    states = [variable.numpy() for metric in model.metrics for variable in metric.variables]
    assert any(np.any(state) for state in states)
    loop.evaluate(dataset(numbers(5, 3, seed=7), np.zeros(5, int)))
    for metric_state, variable in zip(states, [v for metric in model.metrics for v in metric.variables]):
        np.testing.assert_array_equal(variable.numpy(), metric_state)


def test_evaluate_twice_gives_the_same_with_one_trace():
    loop = TrainLoop(classifier())
    first = loop.evaluate(dataset(X, Y))
    assert loop.evaluate(dataset(X, Y)) == first
    (engine,) = loop._engines._made.values()
    assert engine.function.experimental_get_tracing_count() == 1


def test_evaluate_after_a_stopped_fit_is_whole():
    loop = TrainLoop(classifier())

    class Stop(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            loop.request_stop()

    whole = loop.evaluate(dataset(X, Y))
    loop.optimizer.learning_rate = 0.0
    loop.fit(dataset(X, Y), callbacks=[Stop()])
    assert loop.stop_requested
    assert loop.evaluate(dataset(X, Y)) == whole
    assert loop.stop_requested  # Still tells how the last fit ended.


def test_callbacks_see_keras_numbering():
    seen = []
    callback = tf.keras.callbacks.LambdaCallback()
    callback.on_test_begin = lambda logs=None: seen.append("begin")
    callback.on_test_batch_begin = lambda batch, logs=None: seen.append(("batch begins", batch))
    callback.on_test_batch_end = lambda batch, logs=None: seen.append(("batch ends", batch, sorted(logs)))
    callback.on_test_end = lambda logs=None: seen.append(("end", sorted(logs)))
    logs = TrainLoop(classifier()).evaluate(dataset(X, Y), callbacks=[callback])
    assert seen == ["begin", ("batch begins", 0), ("batch ends", 2, sorted(logs)), ("end", sorted(logs))]
    assert callback.params["steps"] == 3


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "3"])
def test_steps_that_make_no_sense(steps):
    loop = TrainLoop(classifier())
    with pytest.raises(ValueError, match=f"must be an integer of at least 1, or None; .* {steps!r}"):
        loop.evaluate(dataset(X, Y), steps=steps)
    with pytest.raises(ValueError, match=f"must be an integer of at least 1, or None; .* {steps!r}"):
        loop.fit(dataset(X, Y), eval_data=dataset(X, Y), eval_steps=steps)


def test_data_that_never_ends_needs_steps():
    with pytest.raises(ValueError, match="the evaluation data never ends: give eval_steps"):
        TrainLoop(classifier()).evaluate(dataset(X, Y).repeat())


@pytest.mark.parametrize("known", [True, False])
def test_empty_data(known):
    data = dataset(X, Y).take(0) if known else dataset(X, Y).filter(lambda *batch: False)
    with pytest.raises(ValueError, match="data is empty"):
        TrainLoop(classifier()).evaluate(data)


def test_host_loop():
    loop = TrainLoop(classifier(), settings=LoopSettings(loop="host"))
    expected = keras_values(dataset(X, Y, WEIGHTS))
    found = loop.evaluate(dataset(X, Y, WEIGHTS))
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}
