"""`tpuloop bench models`: what is timed is one piece of work, and the numbers are what they say."""

import importlib
import json

import pytest
import tensorflow as tf

from tpuloop import models
from tpuloop.commands.bench import model_race, model_table
from tpuloop.commands.bench.keras_encoder import keras_encoder

MACHINE = {"cpu": "A CPU", "cores": 2, "load": 0.1, "tensorflow": "2.9.3", "python": "3.8.1"}


def test_the_reference_has_the_parts_of_ours_but_for_a_table_of_its_own_at_the_end():
    shape = {"vocab_size": 50, "sequence_length": 8, "max_predictions": 2}
    ours = importlib.import_module("tpuloop.models.bert").bert(**shape, layers=2, width=16, heads=2, max_positions=8)
    keras = keras_encoder(**shape, depth=2, width=16, heads=2)
    assert {tensor.name for tensor in keras.inputs} == {tensor.name for tensor in ours.inputs}
    assert keras.output_shape == ours.output_shape == (None, 2, 50)
    # Nothing is tied: a second table, and the embeddings are normalised in both.
    assert keras.count_params() == ours.count_params() + 50 * 16


def test_steps_take_turns_and_each_is_one_update():
    weight = tf.keras.Sequential(
        [tf.keras.layers.Dense(2, use_bias=False, input_shape=[1], kernel_initializer="zeros")]
    )
    step = model_race._step(weight, tf.ones([1, 1]), tf.constant([0]))
    seconds = model_race._in_turns({"one": step}, repeats=3)
    assert len(seconds["one"]) == 3 and min(seconds["one"]) > 0
    assert weight.weights[0].numpy()[0, 0] > 0


def test_the_report_by_hand():
    results = {
        "machine": MACHINE,
        "matmul_flops_per_second": 100e9,
        "races": [
            {"title": "A model", "seconds": {"ours": [0.5, 0.5], "Keras": [1.0, 0.4]}, "flops": {"ours": 25e9}},
        ],
    }
    text = model_table.report(json.loads(json.dumps(results)))
    assert "The fastest product of two matrices here: 100 GFLOP/s." in text
    assert "ours" in text and "500.0 [500.0, 500.0] ms a step" in text
    assert "25.0 GFLOP, share of that speed" in text and "0.50 [0.50, 0.50]" in text
    # 0.5 and 1.25: the median is 0.875, the quartiles lie a quarter of the way in.
    (line,) = [line for line in text.splitlines() if line.startswith("  ours / Keras")]
    assert line.split() == ["ours", "/", "Keras", "0.875", "[0.688,", "1.062]", "<=", "1", "ok"]


@pytest.mark.slow
def test_the_command_times_both(quick_tpuloop):
    arguments = ["--repeats=1", "--images=1", "--image_size=32", "--sequences=1", "--sequence_length=8", "--json"]
    result = quick_tpuloop("bench", "models", "--bert=bert_tiny", *arguments)
    assert result.status == 0, result.err
    results = json.loads(result.out)
    bert, resnet = results["races"]
    assert list(bert["seconds"]) == ["ours", "layers of Keras"]
    assert len(resnet["seconds"]) == 3
    # Two blocks of 2 x 8 x 12 x 128^2 and 4 x 8^2 x 128, and one place of 128 x (128 + 30522) twice; three times.
    assert bert["flops"] == {"ours": 3 * (2 * (2 * 8 * 12 * 128**2 + 4 * 8 * 8 * 128) + 2 * 128 * (128 + 30522))}


def test_a_model_that_is_none_is_named(quick_tpuloop):
    result = quick_tpuloop("bench", "models", "--bert=bert_huge")
    assert result.status == 2
    assert result.err.startswith("tpuloop bench models: error: --bert 'bert_huge' is unknown: use one of bert_base, ")
    assert all(name in result.err for name in models.REGISTRY if name.startswith("bert_"))
