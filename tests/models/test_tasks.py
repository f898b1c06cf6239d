"""What the tasks compute, against numbers worked out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.bert import settings
from tpuloop.models.losses import SmoothedCrossentropy
from tpuloop.models.tasks import TASKS, CompiledTask

# Softmax of [0, ln 2, ln 5] is [1, 2, 5] / 8.
LOGITS = [0.0, math.log(2), math.log(5)]
LOSS = [math.log(8), math.log(8 / 2), math.log(8 / 5)]


def terms(task, outputs, x=None, y=None):
    computed = TASKS[task].terms(outputs, x, y)
    return {name: [None if part is None else np.asarray(part) for part in term] for name, term in computed.items()}


def test_masked_tokens_count_by_their_weights():
    x = {"masked_lm_ids": tf.constant([[2, 0], [1, 0]]), "masked_lm_weights": tf.constant([[1.0, 1.0], [1.0, 0.0]])}
    made = terms("masked_lm", tf.constant([[LOGITS] * 2] * 2), x)
    np.testing.assert_allclose(made["loss"][0], [[LOSS[2], LOSS[0]], [LOSS[1], LOSS[0]]], rtol=1e-6)
    np.testing.assert_array_equal(made["masked_accuracy"][0], [[1, 0], [0, 0]])
    for _, weights in made.values():
        np.testing.assert_array_equal(weights, x["masked_lm_weights"])


@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_pretraining_has_two_losses(shape):
    x = {
        "masked_lm_ids": tf.constant([[2], [1]]),
        "masked_lm_weights": tf.constant([[1.0], [0.0]]),
        "next_sentence_labels": tf.reshape(tf.constant([0, 1]), shape),
    }
    outputs = {"masked_lm": tf.constant([[LOGITS]] * 2), "next_sentence": tf.constant([[math.log(3), 0.0]] * 2)}
    made = terms("pretraining", outputs, x)
    assert list(made)[:2] == list(TASKS["pretraining"].minimised) == ["masked_lm_loss", "next_sentence_loss"]
    np.testing.assert_allclose(made["masked_lm_loss"][0], [[LOSS[2]], [LOSS[1]]], rtol=1e-6)
    np.testing.assert_allclose(made["next_sentence_loss"][0], [math.log(4 / 3), math.log(4)], rtol=1e-6)
    assert made["next_sentence_loss"][1] is None
    np.testing.assert_array_equal(made["next_sentence_accuracy"][0], [1, 0])
    predictions = TASKS["pretraining"].predictions(outputs)
    assert predictions["masked_lm_ids"].numpy().tolist() == [[2], [2]]


def test_tags_of_padding_and_negative_ones_do_not_count():
    y = tf.constant([[2, 0, -100, 1]])
    made = terms("tagging", tf.constant([[LOGITS] * 4]), {"input_mask": tf.constant([[1, 1, 1, 0]])}, y)
    np.testing.assert_array_equal(made["loss"][1], [[1, 1, 0, 0]])
    np.testing.assert_allclose(made["loss"][0][0, :2], [LOSS[2], LOSS[0]], rtol=1e-6)
    np.testing.assert_array_equal(made["accuracy"][0][0, :2], [1, 0])


def test_a_span_is_right_where_both_its_ends_are():
    outputs = {"start": tf.constant([LOGITS] * 2), "end": tf.constant([LOGITS[::-1]] * 2)}
    x = {"input_mask": tf.ones([2, 3], tf.int32)}
    made = terms("span", outputs, x, {"start": tf.constant([2, 2]), "end": tf.constant([[0], [1]])})
    np.testing.assert_allclose(made["loss"][0], [LOSS[2], (LOSS[2] + LOSS[1]) / 2], rtol=1e-6)
    np.testing.assert_array_equal(made["exact_match"][0], [1, 0])


def test_an_answer_that_was_cut_off_does_not_count():
    outputs = {"start": tf.constant([LOGITS] * 4), "end": tf.constant([LOGITS] * 4)}
    x = {"input_mask": tf.constant([[1, 1, 0]] * 4)}
    # Whole, beyond the end, in the padding, before the start.
    made = terms("span", outputs, x, {"start": tf.constant([0, 1, 1, -1]), "end": tf.constant([1, 7, 2, 0])})
    for values, weights in made.values():
        np.testing.assert_array_equal(weights, [1, 0, 0, 0])
        assert np.isfinite(values).all()


def test_half_precision_outputs_give_float32_losses():
    x = {"masked_lm_ids": tf.constant([[2]]), "masked_lm_weights": tf.constant([[1.0]])}
    assert terms("masked_lm", tf.constant([[LOGITS]], tf.bfloat16), x)["loss"][0].dtype == np.float32


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_smoothed_labels_leave_a_share_to_every_class(smoothing):
    loss = SmoothedCrossentropy(label_smoothing=smoothing)
    for label in range(3):
        target = [smoothing / 3 + (1 - smoothing) * (label == index) for index in range(3)]
        expected = sum(share * value for share, value in zip(target, LOSS))
        for labels in ([label], [[label]]):
            np.testing.assert_allclose(loss.call(tf.constant(labels), tf.constant([LOGITS])), [expected], rtol=1e-6)
    assert SmoothedCrossentropy.from_config(loss.get_config()).label_smoothing == smoothing


def test_a_saved_model_brings_its_smoothed_loss(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
    model.compile("sgd", TASKS["classification"].loss(label_smoothing=0.25))
    model.save(tmp_path / "model.h5")
    assert tf.keras.models.load_model(tmp_path / "model.h5").loss.label_smoothing == 0.25


def test_smoothing_is_what_keras_does_with_one_hot_labels():
    labels, logits = tf.constant([0, 2, 1]), tf.random.stateless_normal([3, 3], [1, 2])
    keras = tf.keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1, reduction="none")
    np.testing.assert_allclose(
        TASKS["classification"].loss(label_smoothing=0.1).call(labels, logits),
        keras(tf.one_hot(labels, 3), logits),
        rtol=1e-5,
    )
    assert type(TASKS["classification"].loss()) is tf.keras.losses.SparseCategoricalCrossentropy


def test_bert_has_a_head_for_every_task():
    assert set(settings.TASKS) == set(TASKS)


@pytest.mark.parametrize("wrong", [1, -0.1, "0.1", True])
def test_what_is_no_share_of_smoothing(wrong):
    with pytest.raises(ValueError, match="label_smoothing must be a number of at least 0 and below 1"):
        SmoothedCrossentropy(label_smoothing=wrong)


@pytest.mark.parametrize("task", sorted(name for name, task in TASKS.items() if isinstance(task, CompiledTask)))
def test_a_compiled_task_makes_a_new_loss_and_new_metrics_each_time(task):
    assert TASKS[task].loss() is not TASKS[task].loss()
    first, second = TASKS[task].metrics(), TASKS[task].metrics()
    assert [metric.name for metric in first] == [metric.name for metric in second]
    assert not {id(metric) for metric in first} & {id(metric) for metric in second}
