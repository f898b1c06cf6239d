"""The loop of a weighted task: what counts is counted once, on any number of replicas."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.tasks import TASKS

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.settings import LoopSettings
from tpuloop.task_loop import TaskLoop, check_task

layers = tf.keras.layers
VOCABULARY, LENGTH, PLACES = 7, 5, 2


def examples(count=8, seed=0):
    draw = np.random.default_rng(seed)
    return {
        "input_ids": draw.integers(0, VOCABULARY, [count, LENGTH]).astype(np.int32),
        "masked_lm_ids": draw.integers(0, VOCABULARY, [count, PLACES]).astype(np.int32),
        "masked_lm_weights": (draw.random([count, PLACES]) < 0.6).astype(np.float32),
        "next_sentence_labels": draw.integers(0, 2, [count]).astype(np.int32),
    }


def network(runtime, *, pretraining=False):
    tf.keras.utils.set_random_seed(3)
    with runtime.scope():
        ids = tf.keras.Input([LENGTH], dtype=tf.int32, name="input_ids")
        embedded = layers.Flatten()(layers.Embedding(VOCABULARY, 4)(ids))
        logits = layers.Reshape([PLACES, VOCABULARY])(layers.Dense(PLACES * VOCABULARY)(embedded))
        outputs = {"masked_lm": logits, "next_sentence": layers.Dense(2)(embedded)} if pretraining else logits
        model = tf.keras.Model({"input_ids": ids}, outputs)
        model.compile(tf.keras.optimizers.SGD(0.5))
    return model


def loop_of(runtime, name="masked_lm", **settings):
    model = network(runtime, pretraining=name == "pretraining")
    return TaskLoop(model, task=TASKS[name], runtime=runtime, settings=LoopSettings(**settings))


def expected_means(model, batch):
    """The masked-language loss and hits by NumPy."""
    logits = np.asarray(model({"input_ids": batch["input_ids"]}), np.float64)
    log_shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
    loss = -np.take_along_axis(log_shares, ids[..., None], -1)[..., 0]
    return {
        "loss": (loss * weights).sum() / weights.sum(),
        "masked_accuracy": ((logits.argmax(-1) == ids) * weights).sum() / weights.sum(),
    }


@pytest.mark.parametrize("replicas, size", [(1, 8), (2, 4), (4, 3)])
def test_an_evaluation_counts_every_masked_token_once(runtimes, replicas, size):
    loop, data = loop_of(runtimes(replicas)), examples()
    results = loop.evaluate(ArraySource(data), batch_size=size)
    assert results == pytest.approx(expected_means(loop.model, data), rel=1e-5)


@pytest.mark.parametrize("name", ["masked_lm", "pretraining"])
def test_the_weights_after_two_steps_are_the_same_on_any_number_of_replicas(runtimes, name):
    def trained(replicas, **settings):
        loop = loop_of(runtimes(replicas), name, **settings)
        history = loop.fit(ArraySource(examples(16)), batch_size=8, steps=2).history
        return history, loop.model.get_weights()

    (history, weights), others = trained(1), [trained(4), trained(2, accumulate_steps=2)]
    for other_history, other_weights in others:
        assert other_history == {key: pytest.approx(value, rel=1e-5) for key, value in history.items()}
        for one, other in zip(weights, other_weights):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_sample_weights_multiply_what_the_task_says(runtimes):
    loop, data = loop_of(runtimes(2)), examples()
    kept = np.array([1, 0, 1, 1, 0, 0, 1, 1], np.float32)
    results = loop.evaluate(tf.data.Dataset.from_tensor_slices((data, np.zeros(8), kept)).batch(8))
    rows = {name: feature[kept > 0] for name, feature in data.items()}
    assert results == pytest.approx(expected_means(loop.model, rows), rel=1e-5)


def test_predictions_are_what_the_task_calls_so(runtimes):
    loop, data = loop_of(runtimes(2)), examples()
    ids = loop.predict(ArraySource(data), batch_size=3)["masked_lm_ids"]
    np.testing.assert_array_equal(ids, np.asarray(loop.model({"input_ids": data["input_ids"]})).argmax(-1))


def test_what_the_task_lacks_is_named_before_anything_is_compiled(runtimes):
    model, task = network(runtimes(1)), TASKS["masked_lm"]

    def check(data, task=task):
        check_task(tf.data.Dataset.from_tensor_slices(data).batch(4).element_spec, model, task, what="the data")

    data = examples()
    check(data)
    check((data, np.zeros(8)))
    with pytest.raises(DataError, match="the data has no 'masked_lm_weights', which its task compares outputs with"):
        check({name: data[name] for name in ("input_ids", "masked_lm_ids")})
    with pytest.raises(DataError, match="has no 'input_ids', which the model .* name the task that the data is for"):
        check({"masked_lm_ids": data["masked_lm_ids"]})
    with pytest.raises(DataError, match="its features have no names"):
        check(data["input_ids"])
    masked, places = {**data, "input_mask": np.ones([8, LENGTH], np.int32)}, np.zeros(8, np.int32)
    check((masked, {"start": places, "end": places[:, None]}), TASKS["span"])
    with pytest.raises(DataError, match="the data has no labels"):
        check(masked, TASKS["span"])
    with pytest.raises(DataError, match="its labels are start, stop, and its task takes start, end"):
        check((masked, {"start": places, "stop": places}), TASKS["span"])
    with pytest.raises(DataError, match="its labels are an array, and its task takes start, end"):
        check((masked, places), TASKS["span"])
    with pytest.raises(
        DataError, match=r"the labels 'end' of an example have the shape \(2,\), .* one for each example"
    ):
        check((masked, {"start": places, "end": np.zeros([8, 2], np.int32)}), TASKS["span"])
    # The outputs of this model would be tags of two tokens.
    check((masked, np.zeros([8, PLACES], np.int32)), TASKS["tagging"])
    with pytest.raises(DataError, match=r"the labels 'y' of an example have the shape \(\), .* one for each token"):
        check((masked, places), TASKS["tagging"])
    with pytest.raises(DataError, match=r"input_ids.*\(3\), and the model .* takes \(5\)"):
        check({**data, "input_ids": data["input_ids"][:, :3]})
