"""From data of any kind to batches: lengths, splits, padding, class weights."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.checks import DataError
from tpuloop.data.feed import FeedRules, eval_feed, train_feed
from tpuloop.errors import UsageError

RULES = FeedRules(replicas=1, static_shapes=False, strings=False)
TPU = FeedRules(replicas=4, static_shapes=True, strings=False)


def training(data, rules=RULES, *, batch_size=None, step=0, by_pass=True, steps_per_epoch=None, **arguments):
    return train_feed(
        data,
        rules,
        batch_size=batch_size,
        seed=0,
        step=step,
        by_pass=by_pass,
        steps_per_epoch=steps_per_epoch,
        **arguments,
    )


def evaluation(data, rules=RULES, *, batch_size=None, steps=None, **arguments):
    return eval_feed(data, rules, batch_size=batch_size, steps=steps, **arguments)


def numbers(count, size):
    return tf.data.Dataset.range(count).batch(size)


def lists(dataset):
    return [batch.numpy().tolist() for batch in dataset]


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("drop_remainder", [True, False])
def test_parts_of_the_replicas_are_the_batch_in_order(runtimes, replicas, drop_remainder):
    runtime = runtimes(replicas)
    feed = training(tf.data.Dataset.range(19).batch(8, drop_remainder).repeat(2), by_pass=False)
    assert not feed.splits_on_host(runtime.strategy, shared_memory=False) or not drop_remainder
    for whole in {feed.splits_on_host(runtime.strategy, shared_memory=False), replicas > 1}:
        batches = []
        for batch in feed.iterator(runtime.strategy, whole=whole):
            parts = runtime.strategy.experimental_local_results(batch)
            assert len(parts) == (1 if whole else replicas)
            batches.append(np.concatenate([part.numpy() for part in parts]).tolist())
        expected = [list(range(8)), list(range(8, 16))] + ([] if drop_remainder else [[16, 17, 18]])
        assert batches == expected * 2


@pytest.mark.parametrize(
    "make, by_pass, steps_per_epoch, expected",
    [
        # dataset, counted in epochs?, steps_per_epoch -> steps, endless, steps_per_epoch of the feed
        (lambda: numbers(10, 4), True, None, (None, True, 3)),
        (lambda: numbers(10, 4), True, 3, (None, True, 3)),
        (lambda: numbers(10, 4), True, 2, (3, False, 3)),
        (lambda: numbers(10, 4), False, None, (3, False, 3)),
        (lambda: numbers(10, 4).repeat(), True, None, (None, True, None)),
        (lambda: numbers(10, 4).filter(lambda x: True), True, None, (None, False, None)),
    ],
)
def test_lengths(make, by_pass, steps_per_epoch, expected):
    feed = training(make(), by_pass=by_pass, steps_per_epoch=steps_per_epoch)
    assert (feed.steps, feed.endless, feed.steps_per_epoch) == expected
    assert feed.may_end == (expected[:2] == (None, False))


def test_a_dataset_is_passed_over_to_the_step_and_a_source_entered_there():
    assert lists(training(numbers(10, 2), step=3, by_pass=False).dataset) == [[6, 7], [8, 9]]
    assert lists(training(numbers(10, 2), step=7).dataset.take(2)) == [[4, 5], [6, 7]]  # In the second pass.
    assert training(numbers(10, 2), step=3, by_pass=False).steps == 2
    assert training(numbers(10, 2), step=30, by_pass=False).steps == 0
    entered = lists(training(np.arange(10), batch_size=2, step=7).dataset.take(3))
    assert entered == lists(training(np.arange(10), batch_size=2).dataset.skip(7).take(3))


def test_functions_that_return_data():
    assert training(lambda: numbers(10, 5)).steps_per_epoch == 2
    assert training(lambda: np.arange(10), batch_size=5).steps_per_epoch == 2


def test_size_of_batches():
    assert training(np.arange(100)).global_batch == 32
    assert training(np.arange(100), batch_size=8).global_batch == 8
    assert training(numbers(10, 4)).global_batch is None
    assert training(tf.data.Dataset.range(10).batch(4, drop_remainder=True)).global_batch == 4


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "32", True])
def test_sizes_of_batches_that_make_no_sense(batch_size):
    for make in (training, evaluation):
        with pytest.raises(UsageError, match=f"batch_size must be an integer of at least 1; it is {batch_size!r}"):
            make(np.arange(10), batch_size=batch_size)


def test_a_dataset_has_its_own_batches():
    for make in (training, evaluation):
        with pytest.raises(
            DataError, match="batch_size=4 was given with a tf.data.Dataset, which holds batches already"
        ):
            make(numbers(10, 4), batch_size=4)


def test_a_source_divides_into_the_replicas():
    with pytest.raises(DataError, match="the global batch of 10 does not divide into 4 replicas: use 8 or 12"):
        training(np.arange(100), TPU, batch_size=10)


def test_a_tpu_takes_whole_batches_only():
    with pytest.raises(DataError, match=r"a TPU needs every dimension: use \.batch\(n, drop_remainder=True\)"):
        training(numbers(10, 4), TPU)
    with pytest.raises(DataError, match="the global batch of 6 does not divide into 4 replicas"):
        training(tf.data.Dataset.range(20).batch(6, drop_remainder=True), TPU)


@pytest.mark.parametrize("data", [3, "text", [1.0, 2.0], None, {"a": 1}])
def test_types_that_are_no_data(data):
    for make in (training, evaluation):
        with pytest.raises(DataError, match=rf"cannot use a {type(data).__name__} as data: give a tf.data.Dataset"):
            make(data)


def test_known_to_be_empty():
    for make in (training, evaluation):
        with pytest.raises(DataError, match=r"the data is empty: the dataset holds 0 batches \(does its file pattern"):
            make(numbers(10, 4).take(0))


def test_evaluation_is_padded_no_further_than_to_the_replicas():
    feed = evaluation(numbers(9, 4), FeedRules(replicas=2, static_shapes=False, strings=False))
    found = [(batch.numpy().tolist(), mask.numpy().tolist()) for batch, mask in feed.dataset]
    assert found == [([0, 1, 2, 3], [1, 1, 1, 1]), ([4, 5, 6, 7], [1, 1, 1, 1]), ([8, 8], [1, 0])]
    assert evaluation(numbers(9, 4)).dataset.element_spec[0].shape == [None]
    kept = evaluation(tf.data.Dataset.range(8).batch(4, drop_remainder=True))
    assert kept.dataset.element_spec[0].shape == [4]


def test_evaluation_is_padded_with_copies_that_the_mask_leaves_out():
    feed = evaluation(numbers(9, 4), FeedRules(replicas=3, static_shapes=True, strings=False))
    found = [(batch.numpy().tolist(), mask.numpy().tolist()) for batch, mask in feed.dataset]
    assert feed.steps == 3
    assert found == [
        ([0, 1, 2, 3, 3, 3], [1, 1, 1, 1, 0, 0]),
        ([4, 5, 6, 7, 7, 7], [1, 1, 1, 1, 0, 0]),
        ([8, 8, 8, 8, 8, 8], [1, 0, 0, 0, 0, 0]),
    ]
    assert feed.dataset.element_spec[0].shape == [6]


def test_evaluation_on_a_tpu_has_static_shapes():
    for data, batch_size in (
        (np.zeros([9, 3]), 6),
        (tf.data.Dataset.from_tensor_slices(np.zeros([9, 3])).batch(6), None),
    ):
        batch, mask = evaluation(data, TPU, batch_size=batch_size).dataset.element_spec
        assert batch.shape == [8, 3] and mask.shape == [8]


@pytest.mark.parametrize(
    "data, structure",
    [
        ((np.zeros(5), np.ones(5)), (0, 1)),
        ((np.zeros(5),), (0,)),
        ({"a": np.zeros(5)}, {"a": 0}),
        (((np.zeros(5), np.ones(5)),), ((0, 1),)),
        (np.zeros(5), 0),
    ],
)
@pytest.mark.parametrize("pad", [True, False])
def test_structures_of_an_evaluation_stay_what_they_are(data, structure, pad):
    rules = FeedRules(replicas=2, static_shapes=False, strings=False)
    feed = evaluation(data, rules, batch_size=4, pad=pad)
    tf.nest.assert_same_structure(feed.dataset.element_spec[0], structure)
    (batch, mask) = list(feed.dataset)[-1]
    assert mask.numpy().tolist() == ([1, 0] if pad else [1])
    assert tf.nest.flatten(batch)[0].shape == [2 if pad else 1]


@pytest.mark.parametrize(
    "make, steps, expected",
    [
        (lambda: numbers(10, 4), None, 3),
        (lambda: numbers(10, 4), 2, 2),
        (lambda: numbers(10, 4), 5, 3),
        (lambda: numbers(10, 4).repeat(), 5, 5),
        (lambda: numbers(10, 4).filter(lambda x: True), 2, None),
    ],
)
def test_steps_of_an_evaluation(make, steps, expected):
    feed = evaluation(make(), steps=steps)
    assert feed.steps == expected
    assert len(list(feed.dataset)) == (expected or steps)


def test_evaluation_data_that_never_ends():
    with pytest.raises(DataError, match="the evaluation data never ends: give eval_steps"):
        evaluation(numbers(10, 4).repeat())


def test_a_batch_that_is_larger_than_the_first():
    def batches():
        yield np.zeros(2, np.float32)
        yield np.zeros(3, np.float32)

    data = tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([None]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="a batch has more examples than the first one"):
        list(evaluation(data, TPU).dataset)
    assert [len(batch) for batch, _ in evaluation(data).dataset] == [2, 3]


def weights_of(*arrays, class_weight):
    feed = training(tf.data.Dataset.from_tensor_slices(arrays).batch(3), by_pass=False, class_weight=class_weight)
    return next(iter(feed.dataset))[2].numpy().tolist()


def test_class_weights():
    x, y = np.zeros(3), np.array([2, 0, 1])
    weights = {0: 1.0, 2: 3.0, 1: 0.5}
    assert weights_of(x, y, class_weight=weights) == [3, 1, 0.5]
    assert weights_of(x, y[:, None], class_weight=weights) == [3, 1, 0.5]
    assert weights_of(x, y.astype(np.uint8), class_weight=weights) == [3, 1, 0.5]
    assert weights_of(x, np.eye(3)[y], class_weight=weights) == [3, 1, 0.5]
    assert weights_of(x, y, np.array([1.0, 2.0, 4.0]), class_weight=weights) == [3, 2, 2]
    assert weights_of(x, y, np.array([[1], [2], [4]]), class_weight=weights) == [[3], [2], [2]]
    assert weights_of(x, y, np.array([[1, 0], [2, 1], [4, 2]]), class_weight=weights) == [[3, 0], [2, 1], [2, 1]]


def test_class_weights_that_do_not_fit():
    x, y = np.zeros(3), np.arange(3)
    with pytest.raises(DataError, match=r"class_weight must name the classes 0 to 1 without a gap; it names \[0, 2\]"):
        weights_of(x, y, class_weight={0: 1.0, 2: 3.0})
    for labels in ({"a": y, "b": y}, np.zeros([3, 4, 2])):
        with pytest.raises(DataError, match="class_weight needs one label for each example"):
            weights_of(x, labels, class_weight={0: 1.0})
    with pytest.raises(DataError, match="class_weight needs one label for each example"):
        training(numbers(10, 4), class_weight={0: 1.0})
    with pytest.raises(DataError, match="class_weight needs sample weights that are one tensor"):
        weights_of(x, y, {"a": x}, class_weight={0: 1.0})
