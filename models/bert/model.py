"""BERT (Devlin et al. 2018, arXiv:1810.04805): an encoder of text, and the heads it is trained with."""

from typing import Optional, cast

import tensorflow as tf

from ..checks import check_choice, check_size
from .attention import PaddingBias
from .embeddings import Embeddings
from .encoder import Block
from .heads import MaskedWords, NextSentence, Pooler, Span
from .initializer import initializer
from .settings import TASKS, BertSettings


def bert(
    *,
    vocab_size: int,
    sequence_length: int,
    task: str = "masked_lm",
    num_classes: Optional[int] = None,
    max_predictions: Optional[int] = None,
    layers: int = 12,
    width: int = 768,
    heads: Optional[int] = None,
    feed_forward: Optional[int] = None,
    max_positions: int = 512,
    segments: int = 2,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu",
    recompute: bool = False,
) -> tf.keras.Model:
    """A model over a dict of int32 tensors, with the weights' names of the original TensorFlow release.

    Args:
      vocab_size: how many words there are.
      sequence_length: of each example, padding included.
      task: "masked_lm", "pretraining" (masked words and next sentence), "classification", "tagging" or "span".
      num_classes: of classification and tagging.
      max_predictions: masked positions of an example, where their number is fixed.
      layers, width, heads, feed_forward, max_positions, segments, dropout, attention_dropout, activation, recompute:
        as `BertSettings` says.

    Returns:
      A model from {"input_ids", "input_mask" (1: a token, 0: padding), "segment_ids"}, int32 [batch, sequence_length],
      and for masked words also "masked_lm_positions", int32 [batch, max_predictions], to float32 logits:

      - masked_lm: [batch, max_predictions, vocab_size];
      - pretraining: {"masked_lm": as above, "next_sentence": [batch, 2]};
      - classification: [batch, num_classes];
      - tagging: [batch, sequence_length, num_classes];
      - span: {"start", "end"}, each [batch, sequence_length], with padding at -1e9.

    Raises:
      ValueError: for a value that makes no network.
    """
    settings = BertSettings(
        vocab_size=vocab_size,
        layers=layers,
        width=width,
        heads=heads,
        feed_forward=feed_forward,
        max_positions=max_positions,
        segments=segments,
        dropout=dropout,
        attention_dropout=attention_dropout,
        activation=activation,
        recompute=recompute,
    )
    check_choice("task", task, TASKS)
    check_size("sequence_length", sequence_length)
    if sequence_length > settings.max_positions:
        raise ValueError(
            f"sequence_length must be at most max_positions; it is {sequence_length}, "
            f"max_positions is {settings.max_positions}"
        )
    if task in ("classification", "tagging"):
        check_size("num_classes", num_classes)
    if max_predictions is not None:
        check_size("max_predictions", max_predictions)

    names = ["input_ids", "input_mask", "segment_ids"]
    inputs = {name: tf.keras.Input([sequence_length], dtype=tf.int32, name=name) for name in names}
    vectors, table = Embeddings(
        vocab_size=vocab_size,
        width=settings.width,
        max_positions=settings.max_positions,
        segments=settings.segments,
        dropout=settings.dropout,
        name="bert/embeddings",
    )([inputs["input_ids"], inputs["segment_ids"]])
    bias = PaddingBias(name="bert/encoder/bias")(inputs["input_mask"])
    for layer in range(settings.layers):
        vectors = Block(
            heads=cast(int, settings.heads),  # The settings have put in what was None.
            feed_forward=cast(int, settings.feed_forward),
            dropout=settings.dropout,
            attention_dropout=settings.attention_dropout,
            activation=settings.activation,
            recompute=settings.recompute,
            name=f"bert/encoder/layer_{layer}",
        )([vectors, bias])

    def masked_words():
        positions = tf.keras.Input([max_predictions], dtype=tf.int32, name="masked_lm_positions")
        inputs["masked_lm_positions"] = positions
        return MaskedWords(activation=settings.activation, name="cls/predictions")([vectors, positions, table])

    def logits(features, width, name="logits"):
        return tf.keras.layers.Dense(width, kernel_initializer=initializer(), dtype="float32", name=name)(
            tf.keras.layers.Dropout(settings.dropout, name="dropout")(features) if settings.dropout else features
        )

    def pooled():
        return Pooler(name="bert/pooler")(vectors)

    if task == "masked_lm":
        outputs = masked_words()
    elif task == "pretraining":
        next_sentence = NextSentence(dtype="float32", name="cls/seq_relationship")(pooled())
        outputs = {"masked_lm": masked_words(), "next_sentence": next_sentence}
    elif task == "classification":
        outputs = logits(pooled(), num_classes)
    elif task == "tagging":
        outputs = logits(vectors, num_classes)
    else:
        # A name of its own: the head of a classifier of two classes has the same shape, and is something else.
        both = logits(vectors, 2, name="span_logits")
        start, end = Span(dtype="float32", name="span")([both, inputs["input_mask"]])
        outputs = {"start": start, "end": end}
    return tf.keras.Model(inputs, outputs, name="bert")
