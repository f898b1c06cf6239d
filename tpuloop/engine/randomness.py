"""Randomness as a function of (seed, step, replica, layer), so that nothing random needs saving.

Keras 2.9 gives each random layer a stateful generator that a checkpoint does not hold: after a restart the masks repeat
or differ. Here a layer's generator is replaced by one that folds the step's seed with the layer's number, and draws
with TensorFlow's stateless operations.
"""

import contextlib
import contextvars
import functools
import zlib
from typing import Dict, Iterator, Optional, Sequence

import tensorflow as tf
from keras import backend as keras_backend
from keras.engine.base_layer import BaseRandomLayer
from keras.layers.preprocessing.image_preprocessing import BaseImageAugmentationLayer


class StepSeed:
    """The seed of one step on one replica, and how often each stream was drawn from while it was traced."""

    def __init__(self, seed: tf.Tensor):
        self._seed = seed
        self._draws: Dict[int, int] = {}  # Stream -> draws so far

    @classmethod
    def of(cls, seed: int, step: tf.Tensor, replica: tf.Tensor) -> "StepSeed":
        """The seed that the run's seed, the step and the replica give."""
        # Two 31-bit words, which int32 holds without its sign, so that every 62-bit seed gives streams of its own.
        words = tf.constant([seed & 0x7FFFFFFF, (seed >> 31) & 0x7FFFFFFF], tf.int32)
        fold = tf.random.experimental.stateless_fold_in
        return cls(fold(fold(words, tf.cast(step, tf.int32)), tf.cast(replica, tf.int32)))

    def draw(self, stream: int) -> tf.Tensor:
        """A seed of shape [2] for a stateless operation, another one at each call."""
        count = self._draws.get(stream, 0)
        self._draws[stream] = count + 1
        fold = tf.random.experimental.stateless_fold_in
        return fold(fold(self._seed, stream), count)

    def draw_named(self, name: str) -> tf.Tensor:
        """As `draw`, for a stream the user names."""
        return self.draw(zlib.crc32(name.encode()) & 0x7FFFFFFF)


_CURRENT: "contextvars.ContextVar[Optional[StepSeed]]" = contextvars.ContextVar("step_seed", default=None)


@contextlib.contextmanager
def step_seed(seed: Optional[StepSeed]) -> Iterator[None]:
    """Inside, random layers draw from `seed`. Replica context: each replica's thread enters its own."""
    token = _CURRENT.set(seed)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_seed() -> StepSeed:
    """The seed of the step being traced.

    Raises:
      RuntimeError: outside a step of a loop.
    """
    seed = _CURRENT.get()
    if seed is None:
        raise RuntimeError("step_seed() has a value only inside train_step, eval_step and predict_step")
    return seed


class StepGenerator(keras_backend.RandomGenerator):
    """Keras's generator of one layer inside a step, and the layer's own generator everywhere else."""

    def __init__(self, original: keras_backend.RandomGenerator, stream: int):
        super().__init__()
        self._original = original
        self.stream = stream

    def _maybe_init(self):
        self._original._maybe_init()

    def make_seed_for_stateless_op(self):
        if _CURRENT.get() is None:
            return self._original.make_seed_for_stateless_op()
        return current_seed().draw(self.stream)

    def make_legacy_seed(self):
        return self._original.make_legacy_seed()

    def random_normal(self, shape, mean=0.0, stddev=1.0, dtype=None):
        if _CURRENT.get() is None:
            return self._original.random_normal(shape, mean, stddev, dtype)
        return tf.random.stateless_normal(
            shape, self.make_seed_for_stateless_op(), mean, stddev, dtype or keras_backend.floatx()
        )

    def random_uniform(self, shape, minval=0.0, maxval=None, dtype=None):
        if _CURRENT.get() is None:
            return self._original.random_uniform(shape, minval, maxval, dtype)
        return tf.random.stateless_uniform(
            shape, self.make_seed_for_stateless_op(), minval, maxval, dtype or keras_backend.floatx()
        )

    def truncated_normal(self, shape, mean=0.0, stddev=1.0, dtype=None):
        if _CURRENT.get() is None:
            return self._original.truncated_normal(shape, mean, stddev, dtype)
        return tf.random.stateless_truncated_normal(
            shape, self.make_seed_for_stateless_op(), mean, stddev, dtype or keras_backend.floatx()
        )

    def dropout(self, inputs, rate, noise_shape=None):
        if _CURRENT.get() is None:
            return self._original.dropout(inputs, rate, noise_shape)
        return tf.nn.experimental.stateless_dropout(
            inputs, rate=rate, noise_shape=noise_shape, seed=self.make_seed_for_stateless_op()
        )


def seed_random_layers(layers: Sequence[tf.keras.layers.Layer]) -> int:
    """Gives every random layer among `layers` a `StepGenerator`, numbered in their order. Returns how many there are.

    Safe to call again: a layer that has one keeps it, with its number, and one that is new takes the next number.
    """
    random = [layer for layer in layers if isinstance(layer, BaseRandomLayer)]
    seeded = [layer for layer in random if isinstance(layer._random_generator, StepGenerator)]
    free = 1 + max((layer._random_generator.stream for layer in seeded), default=-1)
    for stream, layer in enumerate((layer for layer in random if layer not in seeded), start=free):
        # Past __setattr__: tracked, the generator's state would join the model's weights.
        object.__setattr__(layer, "_random_generator", StepGenerator(layer._random_generator, stream))
        if _loops_over_images(layer):
            object.__setattr__(layer, "_batch_augment", functools.partial(_augment_each, layer))
    return len(random)


def _loops_over_images(layer: tf.keras.layers.Layer) -> bool:
    """Whether Keras's own loop runs the layer once an image; who overrides it sees to the whole batch."""
    return isinstance(layer, BaseImageAugmentationLayer) and type(layer)._batch_augment.__module__.startswith("keras.")


def _augment_each(layer: BaseImageAugmentationLayer, inputs: Dict[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
    """Keras's loop over the images of a batch, with a seed for each: its body is traced, and so draws, only once."""
    current = _CURRENT.get()
    if current is None:
        return type(layer)._batch_augment(layer, inputs)
    count = tf.shape(inputs["images"])[0]
    seeds = tf.random.stateless_uniform(
        [count, 2], current.draw(layer._random_generator.stream), minval=None, maxval=None, dtype=tf.int32
    )

    def augment(image: Dict[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
        image = dict(image)
        seed = image.pop("seed")
        with step_seed(StepSeed(seed)):
            return {**layer._augment(image), "seed": seed}

    outputs = dict(layer._map_fn(augment, {**inputs, "seed": seeds}))
    del outputs["seed"]
    return outputs
