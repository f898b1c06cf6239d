"""What research code overrides: the forward loss, the steps, and what it keeps beside the model."""

import logging

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
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(size)


class Gan(TrainLoop):
    """Two models, two optimizers, two updates a step."""

    def __init__(self, generator, discriminator, **arguments):
        super().__init__(generator, **arguments)
        self.discriminator = discriminator
        self.optimizers = {"g": tf.keras.optimizers.Adam(0.05), "d": tf.keras.optimizers.SGD(0.05, momentum=0.9)}

    def train_step(self, batch):
        noise, real = batch
        with tf.GradientTape(persistent=True) as tape:
            fake = self.model(noise, training=True)
            on_fake, on_real = self.discriminator(fake), self.discriminator(real)
            cheated = Mean(tf.nn.softplus(-on_fake))
            caught = Mean(tf.nn.softplus(on_fake) + tf.nn.softplus(-on_real))
        self.minimize(cheated, tape=tape, variables=self.model.trainable_variables, optimizer=self.optimizers["g"])
        self.minimize(
            caught, tape=tape, variables=self.discriminator.trainable_variables, optimizer=self.optimizers["d"]
        )
        return {"generator": cheated, "discriminator": caught}


def gan(runtime, **arguments):
    tf.keras.utils.set_random_seed(1)
    with runtime.scope():
        generator = tf.keras.Sequential([tf.keras.Input([2]), layers.Dense(4, activation="tanh"), layers.Dense(3)])
        discriminator = tf.keras.Sequential([tf.keras.Input([3]), layers.Dense(4, activation="tanh"), layers.Dense(1)])
        return Gan(generator, discriminator, **arguments)


NOISE, REAL = numbers(24, 2), numbers(24, 3, seed=1) + 1.0


def gan_by_hand(steps):
    """The same training as plain eager TensorFlow."""
    tf.keras.utils.set_random_seed(1)
    generator = tf.keras.Sequential([tf.keras.Input([2]), layers.Dense(4, activation="tanh"), layers.Dense(3)])
    discriminator = tf.keras.Sequential([tf.keras.Input([3]), layers.Dense(4, activation="tanh"), layers.Dense(1)])
    g, d = tf.keras.optimizers.Adam(0.05), tf.keras.optimizers.SGD(0.05, momentum=0.9)
    losses = []
    for noise, real in dataset(NOISE, REAL).take(steps):
        with tf.GradientTape(persistent=True) as tape:
            on_fake, on_real = discriminator(generator(noise)), discriminator(real)
            cheated = tf.reduce_mean(tf.nn.softplus(-on_fake))
            caught = tf.reduce_mean(tf.nn.softplus(on_fake) + tf.nn.softplus(-on_real))
        gradients = tape.gradient(cheated, generator.trainable_variables)
        of_discriminator = tape.gradient(caught, discriminator.trainable_variables)
        g.apply_gradients(zip(gradients, generator.trainable_variables))
        d.apply_gradients(zip(of_discriminator, discriminator.trainable_variables))
        losses.append((float(cheated), float(caught)))
    return generator.get_weights() + discriminator.get_weights(), np.mean(losses, axis=0)


def weights_of(loop):
    return loop.model.get_weights() + loop.discriminator.get_weights()


@pytest.mark.parametrize("replicas", [1, 2])
def test_gan_with_two_optimizers(runtimes, replicas):
    loop = gan(runtimes(replicas))
    history = loop.fit(dataset(NOISE, REAL), epochs=1).history
    weights, losses = gan_by_hand(6)
    assert history == {
        "generator": [pytest.approx(losses[0], rel=1e-5)],
        "discriminator": [pytest.approx(losses[1], rel=1e-5)],
    }
    for got, want in zip(weights_of(loop), weights):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_gan_resumes_with_both_optimizers_to_the_bit(runtimes, tmp_path, caplog, replicas):
    whole = gan(runtimes(replicas))
    whole.fit(dataset(NOISE, REAL), steps=6)
    gan(runtimes(replicas), workdir=str(tmp_path)).fit(dataset(NOISE, REAL), steps=3)
    resumed = gan(runtimes(replicas), workdir=str(tmp_path))
    with caplog.at_level(logging.WARNING, "tpuloop"):
        resumed.fit(dataset(NOISE, REAL), steps=6)
    assert [record.message[:10] for record in caplog.records] == ["continuing"]
    for got, want in zip(weights_of(resumed), weights_of(whole)):
        np.testing.assert_array_equal(got, want)
    assert int(resumed.optimizers["d"].iterations.numpy()) == 6


def test_what_a_checkpoint_holds_too_much_is_named_after_the_first_step(runtimes, tmp_path, caplog):
    class More(Gan):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.centre = tf.Variable([1.0, 2.0])

    loop = gan(runtimes(1), workdir=str(tmp_path))
    loop.__class__ = More
    loop.centre = tf.Variable([1.0, 2.0])
    loop.fit(dataset(NOISE, REAL), steps=3)
    with caplog.at_level(logging.WARNING, "tpuloop"):
        gan(runtimes(1), workdir=str(tmp_path)).fit(dataset(NOISE, REAL), steps=4)
    assert "step-00000003 holds values that nothing takes: loop/centre\n" in caplog.text


class Tokens(TrainLoop):
    """A weighted mean over tokens, and more to report."""

    def forward_loss(self, batch, *, training):
        x, y = batch
        errors = tf.square(self.model(x, training=training) - y)
        weights = tf.cast(y > 0, tf.float32)
        return Mean(errors, weights), {"kept": Mean(weights), "size": tf.abs(y)}


def regularised(runtime):
    tf.keras.utils.set_random_seed(1)
    with runtime.scope():
        model = tf.keras.Sequential([layers.Dense(4, kernel_regularizer="l2", input_shape=(3,))])
        model.compile(tf.keras.optimizers.SGD(0.1))
    return model


@pytest.mark.parametrize("replicas", [1, 2])
def test_forward_loss_alone(runtimes, replicas):
    x, y = numbers(10, 3), numbers(10, 4, seed=1)
    model = regularised(runtimes(replicas))
    w = model.get_weights()[0].astype(np.float64)
    history = Tokens(model).fit(dataset(x, y, size=10)).history
    kept = y > 0
    errors = x @ w - y
    loss = (errors**2)[kept].mean() + 0.01 * (w**2).sum()
    gradient = x.T @ (2 * errors * kept) / kept.sum() + 0.02 * w
    assert history == {
        "loss": [pytest.approx(loss, rel=1e-5)],
        "kept": [pytest.approx(kept.mean(), rel=1e-6)],
        "size": [pytest.approx(np.abs(y).mean(), rel=1e-6)],
    }
    np.testing.assert_allclose(model.get_weights()[0], w - 0.1 * gradient, rtol=1e-5, atol=1e-7)


def test_forward_loss_of_values_only_of_a_model_that_is_not_built(runtimes):
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense, self.drop = layers.Dense(4), layers.Dropout(0.5)

        def call(self, x, training=None):
            return self.drop(self.dense(x), training=training)

    class Values(TrainLoop):
        def forward_loss(self, batch, *, training):
            return tf.square(self.model(batch["features"], training=training))

    data = dataset({"features": numbers(8, 3)})
    losses = []
    for replicas in (1, 2):
        tf.keras.utils.set_random_seed(1)
        with runtimes(replicas).scope():
            loop = Values(Model(), optimizer="adam")
        losses.append(loop.evaluate(data)["loss"])
        history = loop.fit(data, epochs=2).history["loss"]
        assert history[1] != history[0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_python_control_flow_over_tensors():
    class Branches(TrainLoop):
        def train_step(self, batch):
            total = tf.constant(0.0)
            for value in batch:
                if value > 0.0:
                    total += value
                else:
                    total -= 1.0
            return {"total": total}

    loop = Branches(tf.keras.Sequential([layers.Dense(1, input_shape=(1,))]))
    values = tf.data.Dataset.from_tensor_slices(np.array([[1.0, -2.0], [3.0, 4.0]], np.float32))
    assert loop.fit(values, steps_per_epoch=1, epochs=2).history == {"total": [0.0, 7.0]}


def test_metrics_and_seeds_of_ones_own(runtimes):
    class Own(TrainLoop):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.seen = tf.keras.metrics.Sum(name="seen")

        def train_step(self, batch):
            self.seen.update_state(batch)
            noise = tf.random.stateless_uniform([], self.step_seed("noise"))
            again = tf.random.stateless_uniform([], self.step_seed("noise"))
            return {"noise": noise, "again": again}

    def run(seed):
        with runtimes(2).scope():
            loop = Own(tf.keras.Sequential([layers.Dense(1, input_shape=(1,))]), settings=LoopSettings(seed=seed))
        return loop.fit(dataset(np.arange(8, dtype=np.float32)[:, None]), epochs=2).history

    history = run(0)
    assert history["seen"] == [28.0, 28.0]  # Of all replicas, and reset with the epoch.
    assert len({*history["noise"], *history["again"]}) == 4
    assert run(0) == history
    assert run(1)["noise"] != history["noise"]


def test_steps_that_replace_the_models_own(runtimes):
    class Model(tf.keras.Model):
        def train_step(self, data):
            raise AssertionError("the loop has its own")

        test_step = train_step

    class Own(TrainLoop):
        def train_step(self, batch):
            return {"mean": batch}

        def eval_step(self, batch):
            return {"mean": 2 * batch}

    inputs = tf.keras.Input([1])
    with runtimes(2).scope():
        loop = Own(Model(inputs, layers.Dense(1)(inputs)))
    data = dataset(np.arange(9, dtype=np.float32)[:, None])
    assert loop.fit(data).history == {"mean": [4.0]}
    assert loop.evaluate(data) == {"mean": 8.0}
