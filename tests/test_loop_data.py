"""What `fit` makes of data that is wrong, empty, or ends early; and of models that cannot be trained."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.loop import TrainLoop
from tpuloop.settings import LoopSettings

layers = tf.keras.layers

X = np.random.default_rng(0).normal(size=[12, 2]).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def model_of(**arguments):
    model = tf.keras.Sequential([layers.Dense(1, input_shape=(2,))])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **arguments})
    return model


def loop_of(**settings):
    return TrainLoop(model_of(), settings=LoopSettings(**settings))


def data(count=6):
    """Batches of two."""
    return tf.data.Dataset.from_tensor_slices((X[: 2 * count], Y[: 2 * count])).batch(2)


def unknown(dataset):
    return dataset.filter(lambda *batch: True)


def assert_refused(message, given, loop=None, **arguments):
    """Says what is wrong before a step is compiled, and does nothing."""
    loop = loop_of() if loop is None else loop
    called = []
    callback = tf.keras.callbacks.LambdaCallback(on_train_begin=lambda logs: called.append("begin"))
    with pytest.raises(ValueError, match=message) as caught:
        loop.fit(given, callbacks=[callback], **arguments)
    assert "\n" not in str(caught.value)
    assert not called and not loop._engines._made
    assert int(loop.step) == 0


def test_features_that_cannot_be_used():
    names = tf.constant(["a", "b"])
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])
    assert_refused(r"feature element\[0\] is a string", tf.data.Dataset.from_tensors((names, Y[:2])))
    assert_refused(r"feature element\[0\] is a RaggedTensorSpec", tf.data.Dataset.from_tensors((ragged, Y[:2])))
    assert_refused(r"feature element\[1\] has no batch dimension", tf.data.Dataset.from_tensors((X[0], 1.0)))
    assert_refused("different first dimensions", tf.data.Dataset.from_tensors((X[:2], Y[:3])))
    assert_refused(r"theirs are \[3, 4\]", (X[:3], Y[:4]))
    assert_refused("cannot use a str as data", "data.csv")


def test_a_model_that_takes_strings_is_given_strings():
    lookup = layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")
    model = tf.keras.Sequential([tf.keras.Input([], dtype=tf.string), lookup, layers.Dense(1)])
    model.compile("sgd", "mse")
    history = TrainLoop(model).fit((np.array(["a", "b", "a"]), Y[:3]), batch_size=3)
    assert np.isfinite(history.history["loss"][0])


def test_sizes_of_batches(runtimes):
    with runtimes(4).scope():
        loop = TrainLoop(model_of())
    assert_refused("the global batch of 10 does not divide into 4 replicas: use 8 or 12", (X, Y), loop, batch_size=10)
    assert_refused("batch_size=4 was given with a tf.data.Dataset", data(), batch_size=4)
    assert_refused("batch_size must be an integer of at least 1; it is 2.0", (X, Y), batch_size=2.0)


def test_data_known_to_be_empty():
    assert_refused("the data is empty: the dataset holds 0 batches", data().take(0))
    assert_refused("the data is empty: the arrays hold 0 examples", (X[:0], Y[:0]))


@pytest.mark.parametrize("arguments", [{"epochs": 2}, {"steps": 5}])
@pytest.mark.parametrize("loop", ["graph", "host"])
def test_data_that_turns_out_to_be_empty(arguments, loop):
    with pytest.raises(ValueError, match="data is empty: it gave no batch"):
        loop_of(loop=loop).fit(data().filter(lambda *batch: False), **arguments)


def test_data_without_an_end():
    assert_refused(
        "the data never ends, so an epoch has no end: give steps, or steps_per_epoch", data().repeat(), epochs=2
    )
    assert_refused("the evaluation data never ends: give eval_steps", data(), eval_data=data().repeat())


@pytest.mark.parametrize("steps_per_loop", [1, 100])
@pytest.mark.parametrize("make", [data, lambda: unknown(data())], ids=["known", "unknown"])
@pytest.mark.parametrize("steps_per_epoch", [None, 4])
def test_data_that_ends_early_ends_the_run(caplog, make, steps_per_loop, steps_per_epoch):
    ended = []
    callback = tf.keras.callbacks.LambdaCallback(on_train_end=lambda logs: ended.append("end"))
    loop = loop_of(steps_per_loop=steps_per_loop)
    with caplog.at_level(logging.WARNING, "tpuloop"):
        history = loop.fit(make(), steps=100, steps_per_epoch=steps_per_epoch, callbacks=[callback], eval_data=data())
    assert int(loop.step) == int(loop.optimizer.iterations) == 6
    assert "the data ended at step 6, before step 100" in caplog.text
    assert ended == ["end"]
    epochs = 1 if steps_per_epoch is None else 2
    assert history.epoch == list(range(epochs))
    assert len(history.history["loss"]) == len(history.history["val_loss"]) == epochs


def test_an_epoch_longer_than_the_data(caplog):
    loop = loop_of()
    history = loop.fit(data(), epochs=3, steps_per_epoch=4)
    assert int(loop.step) == 6
    assert history.epoch == [0, 1]
    assert "the data ended at step 6, before step 12" in caplog.text


def test_data_that_can_be_read_only_once(caplog):
    once = iter(list(zip(X, Y)))
    specs = (tf.TensorSpec([2]), tf.TensorSpec([1]))
    batches = tf.data.Dataset.from_generator(lambda: once, output_signature=specs).batch(4)
    loop = loop_of()
    history = loop.fit(batches, epochs=3)
    assert int(loop.step) == 3
    assert history.epoch == [0]
    assert len(history.history["loss"]) == 1
    assert "the data gave no batch after step 3: it seems that it can be read only once" in caplog.text


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"steps": 0}, "steps must be an integer of at least 1, or None; it is 0"),
        ({"steps": 1.5}, "steps must be an integer of at least 1, or None; it is 1.5"),
        ({"epochs": -1}, "epochs must be an integer of at least 1, or None; it is -1"),
        ({"epochs": True}, "epochs must be an integer of at least 1, or None; it is True"),
        ({"steps_per_epoch": "3"}, "steps_per_epoch must be an integer of at least 1, or None; it is '3'"),
        ({"eval_every": 0, "eval_data": (X, Y)}, "eval_every must be an integer of at least 1, or None; it is 0"),
        ({"eval_steps": 0, "eval_data": (X, Y)}, "must be an integer of at least 1, or None; it is 0"),
        ({"eval_steps": 1.5, "eval_data": (X, Y)}, "must be an integer of at least 1, or None; it is 1.5"),
        ({"steps": 3, "epochs": 2}, "give steps or epochs, not both: they are 3 and 2"),
        ({"eval_every": 3}, "eval_every and eval_steps need eval_data"),
        ({"eval_steps": 3}, "eval_every and eval_steps need eval_data"),
        ({"eval_data": (X, Y), "validation_data": (X, Y)}, "eval_data and validation_data are two names for one thing"),
        ({"class_weight": {0: 1.0, 2: 1.0}}, r"class_weight must name the classes 0 to 1 without a gap"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    assert_refused(message, data(), **arguments)


def test_a_model_built_outside_the_scope(runtimes):
    model = model_of()
    with pytest.raises(ValueError, match=r"variable 'dense/kernel:0' of 'sequential' was made outside the scope"):
        TrainLoop(model, runtime=runtimes(2))


def test_no_optimizer_and_no_loss():
    plain = tf.keras.Sequential([layers.Dense(1, input_shape=(2,))])
    with pytest.raises(ValueError, match="the model 'sequential' has no optimizer: compile it, or give TrainLoop"):
        TrainLoop(plain).fit(data())
    with pytest.raises(ValueError, match="the model 'sequential_1' has no loss: compile it with one, give TrainLoop"):
        TrainLoop(model_of(loss=None)).fit(data())


def test_a_loss_that_gives_a_scalar():
    loop = TrainLoop(model_of(loss=lambda y_true, y_pred: tf.reduce_mean((y_true - y_pred) ** 2)))
    with pytest.raises(ValueError, match="gives one scalar for the whole batch, so it cannot be averaged") as caught:
        loop.fit(data())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("returned", [None, {}, 3.0])
def test_a_train_step_that_returns_no_values(returned):
    class Silent(TrainLoop):
        def train_step(self, batch):
            return returned

    with pytest.raises(TypeError, match="a step must return a non-empty dict of named values, such as {'loss': loss}"):
        Silent(model_of()).fit(data())


def test_an_error_of_the_users_step_names_his_line():
    class Wrong(TrainLoop):
        def forward_loss(self, batch, *, training):
            x, _ = batch
            return tf.matmul(x, tf.ones([3, 3]))

    with pytest.raises(ValueError, match=r"test_loop_data.py(.|\n)*return tf.matmul\(x, tf.ones"):
        Wrong(model_of()).fit(data())
