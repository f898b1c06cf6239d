"""`TrainLoop(model).fit` in the place of `model.fit`: the same History and weights, for what Keras models come with."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dataset(*arrays, size=4):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(size)


def weights_of(model):
    """Of the layers; those of metrics are put back by an evaluation of the loop's, and not by Keras's."""
    return [weight for layer in model.layers for weight in layer.get_weights()]


def both(make, data, *, runtime=None, tolerance=1e-6, settings=None, **arguments):
    """Trains one model with Keras and its twin with the loop, and compares History and weights."""
    tf.keras.utils.set_random_seed(1)
    keras_model = make()
    expected = keras_model.fit(data, verbose=0, **arguments).history

    tf.keras.utils.set_random_seed(1)
    if runtime is None:
        model = make()
    else:
        with runtime.scope():
            model = make()
    loop = TrainLoop(model, settings=settings)
    found = loop.fit(data, **arguments)

    assert list(found.history) == list(expected)
    for name in expected:
        assert found.history[name] == pytest.approx(expected[name], rel=tolerance, abs=tolerance), name
    for got, want in zip(weights_of(model), weights_of(keras_model)):
        np.testing.assert_allclose(got, want, rtol=10 * tolerance, atol=tolerance)
    assert found is model.history
    return loop, found


def dense(loss="mse", optimizer="adam", **compile_arguments):
    model = tf.keras.Sequential([layers.Dense(5, activation="tanh", input_shape=(3,)), layers.Dense(2)])
    model.compile(optimizer, loss, **compile_arguments)
    return model


@pytest.mark.parametrize("replicas", [1, 2])
def test_epochs_with_a_short_last_batch_weights_and_validation(runtimes, replicas):
    # 10 examples in batches of 4, 4, 2; the validation's in 4, 4, 1.
    data = dataset(numbers(10, 3), numbers(10, 2, seed=1), np.linspace(0, 2, 10).astype(np.float32))
    held_out = dataset(numbers(9, 3, seed=2), numbers(9, 2, seed=3), np.linspace(3, 1, 9).astype(np.float32))
    _, history = both(
        lambda: dense(metrics=["mae"], weighted_metrics=["mae", tf.keras.metrics.RootMeanSquaredError()]),
        data,
        runtime=runtimes(replicas),
        epochs=3,
        validation_data=held_out,
    )
    assert history.epoch == [0, 1, 2]
    assert all(type(value) is float for values in history.history.values() for value in values)


def two_outputs(**compile_arguments):
    first, second = tf.keras.Input([3], name="first"), tf.keras.Input([2], name="second")
    hidden = layers.Concatenate()([first, second])
    outputs = [layers.Dense(1, name="size")(hidden), layers.Dense(3, activation="softmax", name="kind")(hidden)]
    model = tf.keras.Model([first, second], outputs)
    model.compile("adam", **compile_arguments)
    return model


@pytest.mark.slow
def test_outputs_by_name_with_loss_weights(runtimes):
    features = {"first": numbers(10, 3), "second": numbers(10, 2)}
    labels = {"size": numbers(10, 1, seed=1), "kind": np.arange(10) % 3}
    weights = {"size": np.linspace(0, 1, 10).astype(np.float32), "kind": np.linspace(2, 1, 10).astype(np.float32)}
    _, history = both(
        lambda: two_outputs(
            loss={"size": "mse", "kind": "sparse_categorical_crossentropy"},
            loss_weights={"size": 0.5, "kind": 2.0},
            metrics={"size": ["mae"], "kind": ["accuracy"]},
            weighted_metrics={"kind": ["accuracy"]},
        ),
        dataset(features, labels, weights),
        runtime=runtimes(2),
        epochs=2,
        validation_data=dataset(features, labels, weights, size=3),
    )
    assert "size_loss" in history.history and "val_kind_weighted_accuracy" in history.history


def test_outputs_in_order_and_one_without_a_loss():
    both(
        lambda: two_outputs(loss=["mse", None], metrics=[["mae"], []]),
        dataset((numbers(8, 3), numbers(8, 2)), (numbers(8, 1, seed=1), np.arange(8) % 3)),
        epochs=2,
    )


def test_lists_of_arrays_are_several_inputs_and_outputs_as_in_keras():
    # No shuffle in either: one batch an epoch, whose order does not matter.
    x, y = [numbers(8, 3), numbers(8, 2)], [numbers(8, 1, seed=1), np.arange(8) % 3]
    losses = ["mse", "sparse_categorical_crossentropy"]
    tf.keras.utils.set_random_seed(1)
    expected = two_outputs(loss=losses).fit(x, y, batch_size=8, epochs=3, verbose=0).history
    tf.keras.utils.set_random_seed(1)
    loop = TrainLoop(two_outputs(loss=losses))
    history = loop.fit(x, y, batch_size=8, epochs=3, validation_data=(x, y)).history
    for name in expected:
        assert history[name] == pytest.approx(expected[name], rel=1e-5), name
    assert loop.evaluate(x, y)["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-6)
    for got, want in zip(loop.predict(x), loop.model.predict(x, verbose=0)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "replicas, weights", [(1, "rows"), (2, "elements"), pytest.param(2, None, marks=pytest.mark.slow)]
)
def test_mask_of_an_embedding(runtimes, replicas, weights):
    def make():
        model = tf.keras.Sequential(
            [layers.Embedding(5, 4, mask_zero=True), layers.Dense(3, activation="tanh"), layers.Dense(2)]
        )
        model.compile(
            "adam",
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            weighted_metrics=[tf.keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="ce")],
        )
        return model

    ids = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [4, 4, 4, 4], [1, 1, 1, 0], [2, 0, 0, 0], [3, 3, 0, 0]])
    labels = (ids + np.arange(4)) % 2
    given = {
        None: (),
        "rows": (np.array([1, 2, 0, 1, 3, 1], np.float32),),
        "elements": (np.ones([6, 4], np.float32) * [1, 2, 3, 4],),
    }[weights]
    both(
        make,
        dataset(ids, labels, *given),
        runtime=runtimes(replicas),
        epochs=2,
        validation_data=dataset(ids[:5], labels[:5], *(part[:5] for part in given)),
    )


def test_weights_of_elements_without_a_mask():
    def make():
        model = tf.keras.Sequential([layers.Dense(3, input_shape=(4, 2))])
        model.compile("sgd", "mse", metrics=["mae"], weighted_metrics=["mae"])
        return model

    arrays = numbers(6, 4, 2), numbers(6, 4, 3, seed=1), np.abs(numbers(6, 4, seed=2))
    both(make, dataset(*arrays), epochs=2, validation_data=dataset(*(part[:5] for part in arrays)))


def test_sum_reduction_counts_every_example_of_the_global_batch(runtimes):
    both(
        lambda: dense(tf.keras.losses.MeanSquaredError(reduction="sum"), optimizer="sgd"),
        dataset(numbers(10, 3) / 10, numbers(10, 2, seed=1) / 10),
        runtime=runtimes(2),
        epochs=2,
        validation_data=dataset(numbers(9, 3), numbers(9, 2)),
    )


def test_metrics_of_saturated_probabilities_use_the_logits_as_in_keras():
    def make():
        kernel = tf.constant_initializer([[60, 0, -60], [0, 40, 0]])
        model = tf.keras.Sequential(
            [layers.Dense(3, activation="softmax", input_shape=(2,), kernel_initializer=kernel)]
        )
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["sparse_categorical_crossentropy"])
        return model

    x, y = np.array([[1, 0], [2, 0], [1, 1], [0, 1], [1, -1]], np.float32), np.array([2, 1, 2, 0, 2])
    _, history = both(make, dataset(x, y), validation_data=dataset(x, y))
    assert history.history["val_sparse_categorical_crossentropy"][0] > 20  # Probabilities stop at 1e-7, that is at 16.


def test_class_weight(runtimes):
    x, y = numbers(10, 3), np.arange(10) % 3
    weights = np.linspace(0.5, 2, 10).astype(np.float32)

    def make():
        model = tf.keras.Sequential([layers.Dense(3, activation="softmax", input_shape=(3,))])
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
        return model

    arguments = {"epochs": 2, "class_weight": {0: 1.0, 1: 0.2, 2: 5.0}}
    both(make, dataset(x, y), runtime=runtimes(2), **arguments)
    both(make, dataset(x, y[:, None], weights), **arguments)

    def one_hot():
        model = make()
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
        return model

    both(one_hot, dataset(x, np.eye(3, dtype=np.float32)[y], weights), **arguments)


class Scaled(tf.keras.Model):
    """Overrides Keras's steps, with a loss metric of its own."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)
        self.tracker = tf.keras.metrics.Mean(name="tracked")

    def call(self, x, training=False):
        return self.dense(x)

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        self.tracker.update_state(loss)
        return {"tracked": self.tracker.result()}

    def test_step(self, data):
        x, y = data
        self.tracker.update_state(2 * tf.reduce_mean(tf.square(self(x, training=False) - y)))
        return {"tracked": self.tracker.result()}


def test_keras_model_with_steps_of_its_own():
    def make():
        model = Scaled()
        model.compile("adam")
        return model

    both(
        make,
        dataset(numbers(10, 3), numbers(10, 2, seed=1)),
        epochs=2,
        validation_data=dataset(numbers(9, 3, seed=2), numbers(9, 2, seed=3)),
    )


def test_keras_model_with_a_train_step_of_its_own_on_two_replicas(runtimes):
    class Doubled(tf.keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compiled_loss(y, self(x, training=True)) * 2
            self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
            self.compiled_metrics.update_state(y, self(x, training=True))
            return {metric.name: metric.result() for metric in self.metrics}

    def make():
        inputs = tf.keras.Input([3])
        model = Doubled(inputs, layers.Dense(2)(inputs))
        model.compile("adam", "mse", metrics=["mae"])
        return model

    data = dataset(numbers(8, 3), numbers(8, 2, seed=1))
    both(make, data, runtime=runtimes(2), epochs=2, validation_data=data)


class Unbuilt(tf.keras.Model):
    """Makes its layers when it sees data first, as a subclassed model may."""

    def __init__(self):
        super().__init__()
        self.first = layers.Dense(4, activation="tanh", kernel_regularizer="l2")
        self.norm = layers.BatchNormalization()
        self.second = layers.Dense(2)

    def call(self, inputs, training=None):
        self.add_loss(0.01 * tf.reduce_sum(self.first(inputs["x"]) ** 2) / 100)
        return self.second(self.norm(self.first(inputs["x"]), training=training))


def test_subclassed_model_that_is_not_built():
    def make():
        model = Unbuilt()
        model.compile("adam", "mse", metrics=["mae"])
        return model

    data = dataset({"x": numbers(8, 3)}, numbers(8, 2, seed=1))
    both(make, data, epochs=2, validation_data=data)


def test_generator_whose_length_is_not_known():
    def examples():
        for number in range(10):
            yield numbers(3, seed=number), numbers(2, seed=number + 100)

    specs = tf.TensorSpec([3]), tf.TensorSpec([2])
    data = tf.data.Dataset.from_generator(examples, output_signature=specs).batch(4)
    loop, history = both(lambda: dense(metrics=["mae"]), data, epochs=3, validation_data=data)
    assert int(loop.step) == 9
    assert history.epoch == [0, 1, 2]


def test_steps_per_epoch_takes_the_next_batches_of_one_pass():
    data = dataset(numbers(24, 3), numbers(24, 2, seed=1))  # 6 batches: 2 + 2 + 2.
    loop, _ = both(dense, data, epochs=3, steps_per_epoch=2)
    assert int(loop.step) == 6


def test_endless_dataset_with_steps_per_epoch():
    data = dataset(numbers(8, 3), numbers(8, 2, seed=1)).repeat()
    both(dense, data, epochs=2, steps_per_epoch=3, validation_data=data.take(2))


def test_added_metrics_and_activity_regularisers():
    def make():
        inputs = tf.keras.Input([3])
        hidden = layers.Dense(4, activity_regularizer=tf.keras.regularizers.L2(0.1))(inputs)
        model = tf.keras.Model(inputs, layers.Dense(2)(hidden))
        model.add_metric(tf.reduce_mean(hidden), name="hidden", aggregation="mean")
        model.compile("adam", "mse")
        return model

    both(make, dataset(numbers(10, 3), numbers(10, 2, seed=1)), epochs=2)


def test_compile_arguments_of_the_loop():
    data = dataset(numbers(8, 3), numbers(8, 2, seed=1))

    def plain():
        tf.keras.utils.set_random_seed(1)
        return tf.keras.Sequential([layers.Dense(5, activation="tanh", input_shape=(3,)), layers.Dense(2)])

    loop = TrainLoop(plain(), optimizer="adam", loss="mse", metrics=["mae"])
    history = loop.fit(data, epochs=2).history
    model = plain()
    model.compile("adam", "mse", metrics=["mae"])
    expected = model.fit(data, epochs=2, verbose=0).history
    assert {name: pytest.approx(values) for name, values in history.items()} == expected


def test_model_compiled_anew_is_trained_with_what_is_new():
    data = dataset(numbers(8, 3), numbers(8, 2, seed=1))
    model = dense(optimizer="sgd")
    loop = TrainLoop(model)
    loop.fit(data, epochs=1)
    model.compile(tf.keras.optimizers.SGD(0.0), "mae", metrics=["mse"])
    before = model.get_weights()
    history = loop.fit(data, epochs=2).history
    assert set(history) == {"loss", "mse"}
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    assert history["loss"] == pytest.approx([model.evaluate(data, verbose=0)[0]], rel=1e-6)


def test_host_loop_is_the_same(runtimes):
    data = dataset(numbers(10, 3), numbers(10, 2, seed=1))
    for replicas in (1, 2):
        both(
            lambda: dense(metrics=["mae"]),
            data,
            runtime=runtimes(replicas),
            settings=LoopSettings(loop="host"),
            epochs=2,
            validation_data=data,
        )


def test_second_fit_goes_on_where_the_first_ended():
    data = dataset(numbers(8, 3), numbers(8, 2, seed=1))
    tf.keras.utils.set_random_seed(1)
    whole = TrainLoop(dense())
    expected = whole.fit(data, epochs=4).history["loss"]
    tf.keras.utils.set_random_seed(1)
    loop = TrainLoop(dense())
    first, second = loop.fit(data, epochs=2), loop.fit(data, epochs=4)
    assert first.history["loss"] + second.history["loss"] == expected
    assert second.epoch == [2, 3]
    assert loop.fit(data, epochs=4).epoch == []  # Nothing is left to do.


def test_logs_hold_a_schedule_only_where_it_means_something():
    schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.5, 0.25])
    seen = []

    class Rates(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(sorted(logs))

    TrainLoop(dense(optimizer=tf.keras.optimizers.SGD(schedule))).fit(
        dataset(numbers(8, 3), numbers(8, 2)), callbacks=[Rates()]
    )
    assert seen == [["loss"]]


def test_warns_that_a_dataset_is_read_again_when_it_goes_on(caplog):
    data = dataset(numbers(8, 3), numbers(8, 2, seed=1))
    loop = TrainLoop(dense())
    loop.fit(data, epochs=1)
    with caplog.at_level(logging.WARNING, "tpuloop"):
        loop.fit(data, epochs=2)
    assert "continuing at step 2 of a tf.data.Dataset: its first 2 batches are read again" in caplog.text
