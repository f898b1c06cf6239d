"""Recomputation gives the gradients of the plain model, dropout included, and does compute again."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.bert import bert
from tpuloop.models.bert.recompute import recomputed

from tpuloop import TrainLoop

SMALL = {"vocab_size": 50, "sequence_length": 8, "layers": 1, "width": 16, "heads": 2, "task": "classification"}
CLASSES = 3


def model_of(recompute):
    tf.keras.utils.set_random_seed(7)
    model = bert(recompute=recompute, num_classes=CLASSES, **SMALL)
    for variable in model.variables:  # Large enough that a wrong mask shows.
        if "kernel" in variable.name:
            variable.assign(variable * 10)
    tf.keras.utils.set_random_seed(8)  # Of the masks
    return model


def examples(count=8):
    numbers = np.random.RandomState(0)
    x = {
        "input_ids": numbers.randint(0, 50, [count, 8]).astype(np.int32),
        "input_mask": np.ones([count, 8], np.int32),
        "segment_ids": np.zeros([count, 8], np.int32),
    }
    return x, numbers.randint(0, CLASSES, [count])


def moved(before, model):
    return [after - start for start, after in zip(before, model.get_weights())]


def fitted(recompute):
    """By how much each weight moves in one step of plain SGD, which is its gradient, in Keras's own loop."""
    model = model_of(recompute)
    before = model.get_weights()
    model.compile(tf.keras.optimizers.SGD(1.0), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*examples(), batch_size=8, epochs=1, shuffle=False, verbose=0)
    return moved(before, model)


def assert_same(found, expected):
    assert max(np.abs(part).max() for part in expected) > 1e-2
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_gradients_in_keras_fit_are_those_without_recomputation():
    assert_same(fitted(True), fitted(False))


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_gradients_in_the_loop_are_those_without_recomputation(runtimes, replicas):
    def step(recompute):
        with runtimes(replicas).scope():
            model = model_of(recompute)
        before = model.get_weights()
        loop = TrainLoop(
            model,
            optimizer=tf.keras.optimizers.SGD(1.0),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            runtime=runtimes(replicas),
        )
        # The second batch has one example, so that of two replicas one has none.
        loop.fit(tf.data.Dataset.from_tensor_slices(examples(9)).batch(8).repeat(), steps=2)
        return moved(before, model)

    assert_same(step(True), step(False))


@pytest.mark.parametrize("rows", [0, 2])
def test_gradients_of_any_number_of_rows(rows):
    x, weight = tf.fill([rows, 3], 2.0), tf.fill([3, 4], 5.0)
    with tf.GradientTape() as tape:
        tape.watch([x, weight])
        result = recomputed(tf.matmul, 1)(x, weight)
    of_x, of_weight = tape.gradient(result, [x, weight])
    np.testing.assert_array_equal(of_x, np.full([rows, 3], 4 * 5.0))
    np.testing.assert_array_equal(of_weight, np.full([3, 4], rows * 2.0))


def graph_of(recompute):
    model = model_of(recompute)
    x, _ = examples()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True))
        return [tf.convert_to_tensor(part) for part in tape.gradient(loss, model.trainable_variables)]

    return step


def test_it_does_compute_again():
    counts = {}
    for recompute in (False, True):
        graph = graph_of(recompute).get_concrete_function().graph
        counts[recompute] = sum(op.type in ("MatMul", "BatchMatMulV2") for op in graph.get_operations())
    # Six dense layers and the two products of attention.
    assert counts[True] - counts[False] == 6 + 2


@pytest.mark.slow
def test_xla_does_not_merge_both_passes_into_one():
    counts = {}
    for recompute in (False, True):
        step = tf.function(graph_of(recompute).python_function, jit_compile=True)
        hlo = step.experimental_get_compiler_ir()(stage="optimized_hlo")
        counts[recompute] = hlo.count(" dot(") + hlo.count("custom-call")
    assert counts[True] >= counts[False] + 6 + 1  # The last product is not needed again.


def test_without_training_nothing_differs():
    x, _ = examples()
    np.testing.assert_array_equal(model_of(True)(x), model_of(False)(x))
