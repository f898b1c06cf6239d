"""What a model is trained on: its losses and its metrics."""

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import tensorflow as tf

from .losses import SmoothedCrossentropy

# Values of shape [batch, ...], and their weights, of the same shape or its leading dimensions; None where all count 1.
Term = Tuple[tf.Tensor, Optional[tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class CompiledTask:
    """A task that Keras's `compile` can express.

    Attributes:
      loss: makes the loss; called in the strategy's scope, like `metrics`. Its keyword arguments are those of a
        recipe's field `loss`.
      metrics: makes the metrics.
    """

    loss: Callable[..., tf.keras.losses.Loss]
    metrics: Callable[[], List[tf.keras.metrics.Metric]]


@dataclasses.dataclass(frozen=True)
class WeightedTask:
    """A task whose losses are means over what counts in a batch, such as its masked tokens.

    Keras's `compile` would divide by the number of all tokens, and by each replica's alone.

    Attributes:
      terms: maps `(outputs, x, y)` to named values with their weights. Replica context.
      minimised: the names of the terms whose means are added up to what is minimised.
      features: names in `x` that the terms need beside what the model takes.
      labels: maps the model's outputs to the shapes of `y` for one example, by name where it has several; None for a
        task without labels.
      predictions: maps outputs to what is worth writing down of them, by name.
    """

    terms: Callable[[Any, Any, Any], Dict[str, Term]]
    minimised: Tuple[str, ...]
    features: Tuple[str, ...]
    labels: Optional[Callable[[Any], Any]]
    predictions: Callable[[Any], Dict[str, tf.Tensor]]


Task = Union[CompiledTask, WeightedTask]


def _classification_loss(*, label_smoothing: float = 0.0) -> tf.keras.losses.Loss:
    if label_smoothing == 0 and not isinstance(label_smoothing, bool):
        return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return SmoothedCrossentropy(label_smoothing=label_smoothing)


def _masked_lm(logits: tf.Tensor, x: Any) -> Dict[str, Term]:
    """Of the places that count: cross-entropy and hits, float32 of shape [batch, places]."""
    ids, weights = x["masked_lm_ids"], x["masked_lm_weights"]
    return {
        "loss": (_crossentropy(ids, logits), weights),
        "masked_accuracy": (_hits(ids, logits), weights),
    }


def _pretraining(outputs: Any, x: Any) -> Dict[str, Term]:
    """The two tasks of arXiv:1810.04805, 3.1; their losses are added up."""
    masked = _masked_lm(outputs["masked_lm"], x)
    labels = tf.reshape(x["next_sentence_labels"], [-1])
    return {
        "masked_lm_loss": masked["loss"],
        "next_sentence_loss": (_crossentropy(labels, outputs["next_sentence"]), None),
        "masked_accuracy": masked["masked_accuracy"],
        "next_sentence_accuracy": (_hits(labels, outputs["next_sentence"]), None),
    }


def _tagging(logits: tf.Tensor, x: Any, y: tf.Tensor) -> Dict[str, Term]:
    """`y`: the class of each token, [batch, sequence]; negative for tokens that do not count, as padding does not."""
    weights = tf.cast(tf.logical_and(y >= 0, x["input_mask"] != 0), tf.float32)
    classes = tf.maximum(y, 0)
    return {"loss": (_crossentropy(classes, logits), weights), "accuracy": (_hits(classes, logits), weights)}


def _span(outputs: Any, x: Any, y: Any) -> Dict[str, Term]:
    """`y`: "start" and "end", the first and the last token of the answer, [batch] each.

    An answer that lies outside the sequence, or in its padding, was cut off: such examples do not count.
    """
    length = outputs["start"].shape[1]
    labels = {name: tf.reshape(tf.cast(y[name], tf.int32), [-1]) for name in ("start", "end")}
    places = {name: tf.clip_by_value(label, 0, length - 1) for name, label in labels.items()}
    kept = [
        tf.logical_and(places[name] == label, tf.gather(x["input_mask"], places[name], batch_dims=1) != 0)
        for name, label in labels.items()
    ]
    weights = tf.cast(tf.reduce_all(kept, axis=0), tf.float32)
    loss = tf.add_n([_crossentropy(places[name], outputs[name]) for name in places]) / 2
    exact = tf.reduce_prod([_hits(places[name], outputs[name]) for name in places], axis=0)
    return {"loss": (loss, weights), "exact_match": (exact, weights)}


def _crossentropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(logits, tf.float32))


def _hits(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == tf.cast(labels, tf.int32), tf.float32)


def _best(logits: tf.Tensor) -> tf.Tensor:
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


TASKS: Dict[str, Task] = {
    # Labels are class numbers of shape [batch], outputs are logits of shape [batch, classes].
    "classification": CompiledTask(
        loss=_classification_loss,
        metrics=lambda: [tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    ),
    # Outputs are logits of shape [batch, places, vocabulary]; features are named as in BERT's release.
    "masked_lm": WeightedTask(
        terms=lambda outputs, x, y: _masked_lm(outputs, x),
        minimised=("loss",),
        features=("masked_lm_ids", "masked_lm_weights"),
        labels=None,
        predictions=lambda outputs: {"masked_lm_ids": _best(outputs)},
    ),
    # Outputs are "masked_lm" as above and "next_sentence", logits of shape [batch, 2].
    "pretraining": WeightedTask(
        terms=lambda outputs, x, y: _pretraining(outputs, x),
        minimised=("masked_lm_loss", "next_sentence_loss"),
        features=("masked_lm_ids", "masked_lm_weights", "next_sentence_labels"),
        labels=None,
        predictions=lambda outputs: {
            "masked_lm_ids": _best(outputs["masked_lm"]),
            "next_sentence": outputs["next_sentence"],
        },
    ),
    # Outputs are logits of shape [batch, sequence, classes].
    "tagging": WeightedTask(
        terms=_tagging,
        minimised=("loss",),
        features=("input_mask",),
        labels=lambda outputs: outputs.shape[1:2],
        predictions=lambda outputs: {"tags": _best(outputs)},
    ),
    # Outputs are "start" and "end", logits of shape [batch, sequence].
    "span": WeightedTask(
        terms=_span,
        minimised=("loss",),
        features=("input_mask",),
        labels=lambda outputs: {"start": [], "end": []},
        predictions=lambda outputs: {"start": _best(outputs["start"]), "end": _best(outputs["end"])},
    ),
}
