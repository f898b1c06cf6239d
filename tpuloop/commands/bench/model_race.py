"""Training steps of our models and of those that Keras's layers make of the same size, timed in turns."""

import importlib
import time
from typing import Any, Callable, Dict, List

import numpy as np
import tensorflow as tf

from tpuloop.commands.bench.keras_encoder import keras_encoder
from tpuloop.engine.optimize import create_weights

Step = Callable[[], tf.Tensor]

VOCABULARY = 30522
CLASSES = 1000
_WARM_UPS = 2


def resnet_race(models: Any, *, images: int, size: int, repeats: int) -> Dict[str, Any]:
    """ResNet-50 of ours beside that of Keras Applications, which has its strides in the 1x1 convolutions.

    Args:
      models: the package of the registry.
      images: of a batch.
      size: of an image, in pixels.

    Returns:
      Plain data: a title, the seconds of every step by name, and what our step and that of v1.5 compute.
    """
    resnet = models.REGISTRY["resnet50"].builder()
    shape = {"input_shape": (size, size, 3), "num_classes": CLASSES}
    x = tf.random.stateless_normal([images, size, size, 3], [1, 2])
    y = tf.range(images) % CLASSES
    keras = tf.keras.applications.ResNet50(
        weights=None, input_shape=(size, size, 3), classes=CLASSES, classifier_activation=None
    )
    steps = {
        "ours, strides in the 1x1": _step(resnet(**shape, stride_in="1x1"), x, y),
        "tf.keras.applications.ResNet50": _step(keras, x, y),
        "ours, v1.5": _step(resnet(**shape), x, y),
    }
    layout = _module(models, "resnet_layout").ResNetLayout
    flops = _module(models, "resnet_flops").step_flops
    return {
        "title": f"ResNet-50, {images} images of {size} x {size} pixels",
        "seconds": _in_turns(steps, repeats=repeats),
        "flops": {
            "ours, strides in the 1x1": images * flops(layout(**shape, stride_in="1x1")),
            "ours, v1.5": images * flops(layout(**shape)),
        },
    }


def bert_race(models: Any, *, name: str, sequences: int, length: int, repeats: int) -> Dict[str, Any]:
    """A masked-language model of ours beside one of `MultiHeadAttention` and other layers of Keras's.

    Args:
      models: as for `resnet_race`.
      name: of the registry.
      sequences: of a batch.
      length: of a sequence, in tokens.

    Returns:
      As `resnet_race`.
    """
    entry = models.REGISTRY[name]
    predictions = max(1, round(0.15 * length))
    shape = {"vocab_size": VOCABULARY, "sequence_length": length, "max_predictions": predictions}
    depth, width = entry.preset["layers"], entry.preset["width"]
    draw = np.random.RandomState(0)
    x = {
        "input_ids": draw.randint(0, VOCABULARY, [sequences, length]),
        "input_mask": np.ones([sequences, length]),
        "segment_ids": np.zeros([sequences, length]),
        "masked_lm_positions": draw.randint(0, length, [sequences, predictions]),
    }
    x = {feature: tf.constant(value, tf.int32) for feature, value in x.items()}
    y = tf.constant(draw.randint(0, VOCABULARY, [sequences, predictions]), tf.int32)
    steps = {
        "ours": _step(entry.builder()(**shape), x, y),
        "layers of Keras": _step(keras_encoder(**shape, depth=depth, width=width, heads=width // 64), x, y),
    }
    settings = _module(models, "bert.settings").BertSettings(vocab_size=VOCABULARY, **entry.preset)
    flops = _module(models, "bert.flops").step_flops(settings, length, max_predictions=predictions)
    return {
        "title": f"{name}, {sequences} sequences of {length} tokens, {predictions} to predict of {VOCABULARY:,}",
        "seconds": _in_turns(steps, repeats=repeats),
        "flops": {"ours": sequences * flops},
    }


def _module(models: Any, name: str) -> Any:
    return importlib.import_module(f"{models.__name__}.{name}")


def _step(model: tf.keras.Model, x: Any, y: tf.Tensor) -> Step:
    """Loss, gradients and an update by momentum, as one compiled function."""
    optimizer = tf.keras.optimizers.SGD(1e-3, momentum=0.9)
    create_weights(optimizer, model.trainable_variables)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def _in_turns(steps: Dict[str, Step], *, repeats: int) -> Dict[str, List[float]]:
    """The seconds of each step, all taking turns."""
    for step in steps.values():
        for _ in range(_WARM_UPS):
            step()
    seconds: Dict[str, List[float]] = {name: [] for name in steps}
    for repeat in range(repeats):
        for name in list(steps)[:: -1 if repeat % 2 else 1]:
            start = time.perf_counter()
            steps[name]().numpy()
            seconds[name].append(time.perf_counter() - start)
    return seconds
