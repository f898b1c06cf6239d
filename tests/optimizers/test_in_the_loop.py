"""Each optimizer in a loop: on any number of replicas, after a resume, with what a loop does to gradients."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.optimizers import optimizer_class
from tpuloop.optimizers.schedule_settings import ScheduleSettings
from tpuloop.optimizers.schedules import make_schedule
from tpuloop.settings import LoopSettings

layers = tf.keras.layers

WORDS = np.random.default_rng(0).integers(0, 6, size=[24, 3]).astype(np.int32)
LABELS = (np.arange(24) % 3).astype(np.int64)
SLOWER = ["adamw", "lars", "sgd"]
RATE = make_schedule(ScheduleSettings("cosine", warmup_steps=2), peak=0.05, run_steps=7)


class Rates(Callback):
    """The learning rate of every step."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_steps_end(self, trace):
        self.seen += trace.values("learning_rate").tolist()


def made(name, runtime, *, workdir=None, jit_compile=False, **settings):
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(1)
    with runtime.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input([3]),
                layers.Embedding(6, 4),
                layers.Flatten(),
                layers.LayerNormalization(),
                layers.Dense(3),
            ]
        )
        momentum = {"momentum": 0.9} if name == "sgd" else {}
        model.compile(
            optimizer_class(name)(RATE, weight_decay=0.1, **momentum),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=jit_compile,
        )
    return TrainLoop(
        model,
        runtime=runtime,
        workdir=workdir and str(workdir),
        settings=LoopSettings(**{"clip_norm": 1.0, **settings}),
    )


def fitted(loop, steps=7, **arguments):
    loop.fit((WORDS, LABELS), batch_size=8, steps=steps, **arguments)
    return [weight.numpy() for weight in [*loop.model.weights, *loop.optimizer.weights]]


def assert_close(found, expected):
    assert len(found) == len(expected)
    for got, want in zip(found, expected):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_the_same_on_two_replicas(runtimes):
    assert_close(fitted(made("lars", runtimes(2))), fitted(made("lars", runtimes(1))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_the_same_on_two_replicas_and_in_parts_and_by_xla(name, runtimes):
    one = fitted(made(name, runtimes(1)))
    assert_close(fitted(made(name, runtimes(2))), one)
    assert_close(fitted(made(name, runtimes(1), accumulate_steps=2)), one)
    assert_close(fitted(made(name, runtimes(1), jit_compile=True)), one)


@pytest.mark.parametrize("name", ["lamb", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])
def test_a_resumed_run_is_the_unbroken_one_to_the_bit_and_its_rate_goes_on(name, runtimes, tmp_path):
    rates = Rates()
    whole = fitted(made(name, runtimes(1)), callbacks=[rates])
    assert rates.seen == pytest.approx([float(RATE(step)) for step in range(7)])
    fitted(made(name, runtimes(1), workdir=tmp_path), steps=3)
    after = Rates()
    resumed = fitted(made(name, runtimes(1), workdir=tmp_path), callbacks=[after])
    assert after.seen == rates.seen[3:]
    for got, want in zip(resumed, whole):
        np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_float16_layers(runtimes):
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    loop = made("lars", runtimes(1))
    assert isinstance(loop.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    half = fitted(loop)
    tf.keras.mixed_precision.set_global_policy("float32")
    full = fitted(made("lars", runtimes(1)))
    for got, want in zip(half[:5], full[:5]):  # The model's.
        np.testing.assert_allclose(got, want, atol=5e-3)
