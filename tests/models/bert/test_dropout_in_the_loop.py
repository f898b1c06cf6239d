"""BERT's dropout in the loop: other masks wherever they should be, and the same ones after a restart."""

import itertools
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.bert import attention, bert
from tpuloop.models.bert import dropout as dropout_module

from tpuloop import LoopSettings, TrainLoop

LAYERS = 2
# One head, and sequences as long as the model is wide, so that all masks have the same shape but for its rows.
SIZES = {"vocab_size": 20, "sequence_length": 8, "width": 8, "heads": 1, "dropout": 0.5, "attention_dropout": 0.5}


def process(runtime, *, layers=1, workdir=None, start=0):
    """What a new process begins with: a fresh model, and other global seeds than the process before it."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(start)
    with runtime.scope():
        model = bert(layers=layers, task="classification", num_classes=3, **SIZES)
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return TrainLoop(
        model,
        runtime=runtime,
        workdir=workdir and str(workdir),
        settings=LoopSettings(save_every=2 if workdir else None),
    )


def fit(loop, steps):
    numbers = np.random.RandomState(0)
    x = {
        "input_ids": numbers.randint(0, 20, [8, 8]).astype(np.int32),
        "input_mask": np.ones([8, 8], np.int32),
        "segment_ids": np.zeros([8, 8], np.int32),
    }
    loop.fit((x, numbers.randint(0, 3, [8])), batch_size=4, steps=steps)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_run_is_the_unbroken_one_to_the_bit(runtimes, tmp_path, replicas):
    whole = process(runtimes(replicas), workdir=tmp_path)
    fit(whole, 4)
    (last,) = tmp_path.rglob("step-00000004")
    shutil.rmtree(last)  # As if the run had ended before it was saved.
    resumed = process(runtimes(replicas), workdir=tmp_path, start=5)
    assert resumed.restore() == 2
    fit(resumed, 4)
    for found, expected in zip(resumed.model.variables, whole.model.variables):
        np.testing.assert_array_equal(found, expected)


def test_masks_differ_between_replicas_steps_blocks_and_their_places(runtimes, monkeypatch):
    masks = []
    kept = dropout_module.kept

    def spied(*arguments):
        mask = kept(*arguments)

        def see(values):
            masks.append(values.copy().ravel())
            return values

        seen = tf.numpy_function(see, [mask], tf.bool)
        return tf.ensure_shape(seen, mask.shape)

    monkeypatch.setattr(dropout_module, "kept", spied)
    monkeypatch.setattr(attention, "kept", spied)
    replicas, steps = 2, 2
    fit(process(runtimes(replicas), layers=LAYERS), steps)
    # The embeddings' one; and of each block those of the weights of attention, its output, and the output.
    assert len(masks) == replicas * steps * (1 + LAYERS * 3)
    assert {len(mask) for mask in masks} == {128}
    # Of 128 independent pairs of bits half are equal, with a standard deviation of 0.044.
    for one, other in itertools.combinations(masks, 2):
        assert abs(np.mean(one == other) - 0.5) < 0.25
