"""Masks: by hand, by what must hold of any, by their rates, and the same from NumPy and from a graph."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.data.splitmix import mixed
from tpuloop.data.text.masked_source import masked_source
from tpuloop.data.text.masking import Masking, default_predictions, masked
from tpuloop.data.text.masking_in_graph import mask_in_graph
from tpuloop.data.text.special import SpecialTokens
from tpuloop.errors import UsageError

VOCAB = 1000
MASK = 4
HOW = Masking(vocab_size=VOCAB, max_predictions=20)


def sequences(count, length, *, seed=0, full=False):
    """Rows of [CLS] text [SEP] padding, of all lengths from 0 up; every tenth token is special."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, VOCAB, [count, length]).astype(np.int32)
    ids[:, ::10] = random.integers(0, 5, ids[:, ::10].shape)
    lengths = np.full(count, length) if full else random.integers(0, length + 1, count)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def seeds_of(count, first=7):
    return np.stack([np.full(count, first), np.arange(count)], axis=1)


def in_graph(batch, seeds, masking, **options):
    signature = {name: tf.TensorSpec([None, *value.shape[1:]], value.dtype) for name, value in batch.items()}

    @tf.function(input_signature=[signature, tf.TensorSpec([None, 2], seeds.dtype)], **options)
    def mask(batch, seeds):
        return mask_in_graph(batch, seeds=seeds, masking=masking)

    return mask, {name: value.numpy() for name, value in mask(batch, seeds).items()}


def test_by_hand():
    # What the seed (3, 15) draws is worked out here in Python's integers, as `masking` says.
    key = mixed(mixed(3) ^ 15)
    tokens = [2, 10, 11, 3, 12, 13, 14, 0]
    order = sorted((1, 2, 4, 5, 6), key=lambda place: mixed(key + place) >> 17)  # 0, 3 and 7 are special or padding.
    places = sorted(order[:3])  # 0.4 of the 7 tokens, special ones among them, are 2.8.
    replaced = list(tokens)
    for place in places:
        number = mixed((key ^ 0x5DEECE66D) + place)
        tenth, random = number % 2**32 * 10 // 2**32, (number // 2**32) * 1000 // 2**32
        replaced[place] = 4 if tenth < 8 else tokens[place] if tenth == 8 else random
    batch = {"input_ids": np.array([tokens], np.int32), "input_mask": np.array([[1] * 7 + [0]], np.int32)}
    how = Masking(vocab_size=1000, max_predictions=4, rate=0.4)
    found = masked(batch, seeds=np.array([[3, 15]]), masking=how)
    # A random token, the token itself, and [MASK].
    assert found["input_ids"].tolist() == [replaced] == [[2, 379, 11, 3, 12, 13, 4, 0]]
    assert found["masked_lm_positions"].tolist() == [[*places, 0]] == [[1, 2, 6, 0]]
    assert found["masked_lm_ids"].tolist() == [[10, 11, 14, 0]]
    assert found["masked_lm_weights"].tolist() == [[1, 1, 1, 0]]


@pytest.mark.parametrize("length, rate, most", [(128, 0.15, 20), (16, 0.5, 3), (5, 1.0, 5), (40, 0.01, 1)])
def test_what_holds_of_any_mask(length, rate, most):
    batch = sequences(300, length)
    how = Masking(vocab_size=VOCAB, max_predictions=most, rate=rate)
    found = masked(batch, seeds=seeds_of(300), masking=how)
    assert {name: (value.dtype, value.shape) for name, value in found.items() if "lm" in name} == {
        "masked_lm_positions": (np.int32, (300, most)),
        "masked_lm_ids": (np.int32, (300, most)),
        "masked_lm_weights": (np.float32, (300, most)),
    }
    assert found["input_mask"] is batch["input_mask"] and found["segment_ids"] is batch["segment_ids"]
    for row in range(300):
        before, after = batch["input_ids"][row], found["input_ids"][row]
        count = int(found["masked_lm_weights"][row].sum())
        places = found["masked_lm_positions"][row][:count]
        present = batch["input_mask"][row] == 1
        candidates = np.flatnonzero(present & (before > 4))
        wanted = min(most, max(1, round(rate * present.sum()))) if present.any() else 0
        assert count == min(wanted, len(candidates))
        assert found["masked_lm_weights"][row].tolist() == [1] * count + [0] * (most - count)
        assert (np.diff(places) > 0).all() and set(places) <= set(candidates)
        assert found["masked_lm_ids"][row].tolist() == [*before[places], *[0] * (most - count)]
        assert not found["masked_lm_positions"][row][count:].any()
        others = np.setdiff1d(np.arange(length), places)
        np.testing.assert_array_equal(before[others], after[others])
        assert 0 <= after.min() and after.max() < VOCAB


def test_counts_are_those_of_the_original_release():
    # min(max_predictions_per_seq, max(1, int(round(len(tokens) * masked_lm_prob)))) of create_pretraining_data.py.
    expected = [0] + [min(20, max(1, int(round(length * 0.15)))) for length in range(1, 513)]
    assert HOW.predictions(512).tolist() == expected


def exactly_likely(count, total, share):
    """The probability of a binomial count as far from its mean as this one, or farther, to that side, doubled."""
    log = math.log

    def at(k):
        choose = math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1)
        return math.exp(choose + k * log(share) + (total - k) * log(1 - share))

    tail = range(count + 1) if count < share * total else range(count, total + 1)
    return 2 * sum(at(k) for k in tail)


def test_rates():
    batch = sequences(2000, 128, full=True)
    found = masked(batch, seeds=seeds_of(2000), masking=HOW)
    np.testing.assert_array_equal(found["masked_lm_weights"].sum(axis=1), 19)  # 0.15 x 128 = 19.2.
    chosen = found["masked_lm_weights"] == 1
    after = np.take_along_axis(found["input_ids"], found["masked_lm_positions"], axis=1)[chosen]
    before = found["masked_lm_ids"][chosen]
    total = 2000 * 19
    # A random token is [MASK] or the token itself once in 1000.
    shares = {
        "masked": (int((after == MASK).sum()), 0.8 + 0.1 / VOCAB),
        "kept": (int((after == before).sum()), 0.1 + 0.1 / VOCAB),
    }
    for name, (count, share) in shares.items():
        assert exactly_likely(count, total, share) > 1e-4, (name, count / total)

    # Random tokens are spread evenly over the vocabulary, and so are places over a sequence.
    random = after[(after != MASK) & (after != before)]
    counts = np.histogram(random, bins=10, range=(0, VOCAB))[0]
    assert (((counts - len(random) / 10) ** 2) / (len(random) / 10)).sum() < 33.7  # 9 degrees of freedom: 1 in 10,000.
    assert random.min() < 5 and random.max() > VOCAB - 5
    places = np.bincount(found["masked_lm_positions"][chosen], minlength=128)
    candidates = (batch["input_ids"] > 4).sum(axis=0)
    assert not places[candidates == 0].any()
    share = total / candidates.sum()
    deviations = (places - share * candidates)[candidates > 0] / np.sqrt(candidates * share * (1 - share))[
        candidates > 0
    ]
    assert np.abs(deviations).max() < 4.5 and 0.7 < deviations.std() < 1.3


def test_a_mask_is_a_function_of_its_seed():
    batch = sequences(50, 64, full=True)
    one = masked(batch, seeds=seeds_of(50), masking=HOW)
    turned = masked({k: v[::-1] for k, v in batch.items()}, seeds=seeds_of(50)[::-1], masking=HOW)
    for name in one:
        np.testing.assert_array_equal(one[name], turned[name][::-1])
    # The same text with other seeds: places agree no more often than chance has it.
    same = {k: np.repeat(v[:1], 50, axis=0) for k, v in batch.items()}
    for seeds in (seeds_of(50), seeds_of(50)[:, ::-1], seeds_of(50, first=8)):
        places = masked(same, seeds=seeds, masking=HOW)["masked_lm_positions"]
        assert len({tuple(row) for row in places}) == 50


@pytest.mark.parametrize(
    "options, dtype", [({}, np.int32), ({}, np.int64), ({"jit_compile": True}, np.int32)], ids=["graph", "int64", "xla"]
)
def test_a_graph_masks_alike(options, dtype):
    batch = sequences(200, 96)
    seeds = np.random.default_rng(1).integers(-(2**31), 2**31, [200, 2]).astype(dtype)
    special = SpecialTokens(pad=0, unknown=100, start=101, separator=102, mask=103)
    for how in (HOW, Masking(vocab_size=30522, max_predictions=96, rate=0.6, special=special)):
        expected = masked(batch, seeds=seeds, masking=how)
        _, found = in_graph(batch, seeds, how, **options)
        assert sorted(found) == sorted(expected)
        for name, value in found.items():
            assert value.dtype == expected[name].dtype
            np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_a_graph_has_static_shapes_and_no_loop():
    batch = sequences(3, 32)
    function, _ = in_graph(batch, seeds_of(3), HOW)
    graph = function.get_concrete_function().graph
    kinds = {op.type for op in graph.get_operations()}
    assert not {kind for kind in kinds if "While" in kind or "Map" in kind or "Random" in kind or "PyFunc" in kind}
    shapes = {name: value.shape.as_list() for name, value in graph.structured_outputs.items()}
    assert shapes["masked_lm_positions"] == shapes["masked_lm_ids"] == shapes["masked_lm_weights"] == [None, 20]
    assert shapes["input_ids"] == [None, 32]


def test_a_source_masks_anew_in_every_epoch_and_the_same_again():
    features = sequences(24, 32, full=True)
    features["number"] = np.arange(24, dtype=np.int32)
    source = masked_source(ArraySource(features), masking=Masking(vocab_size=VOCAB, max_predictions=5))

    def read(position, batches):
        rows = source.batches(batch_size=8, seed=3, position=position).take(batches).unbatch()
        return [(int(row["number"]), tuple(row["masked_lm_positions"].numpy())) for row in rows]

    two_epochs = read(0, 6)
    assert read(16, 4) == two_epochs[16:]
    first, second = (dict(two_epochs[start : start + 24]) for start in (0, 24))
    assert sorted(first) == sorted(second) == list(range(24))
    assert sum(first[number] != second[number] for number in range(24)) > 20

    passes = [[row["masked_lm_positions"].numpy() for row in source.one_pass(batch_size=7)] for _ in range(2)]
    for one, other in zip(*passes):
        np.testing.assert_array_equal(one, other)
    assert [len(rows) for rows in passes[0]] == [7, 7, 7, 3]

    assert source.size == 24
    (batch,) = source.batches(batch_size=8, seed=3).take(1)
    assert {name: (value.dtype, value.shape[1:]) for name, value in batch.items()} == {
        name: (spec.dtype, spec.shape) for name, spec in source.element_spec.items()
    }
    assert [name for name, _ in source.stages()] == ["read", "mask"]


@pytest.mark.parametrize(
    "features, expected",
    [
        ({"input_ids": np.zeros([4, 8], np.int32)}, "the feature 'input_mask', int32 .* it is not there"),
        (np.zeros([4, 8], np.int32), "the feature 'input_ids', int32 .* it is not there"),
        ({"input_ids": np.zeros([4, 8]), "input_mask": np.zeros([4, 8], np.int32)}, "it is float32 of shape"),
        ({"input_ids": np.zeros([4], np.int32), "input_mask": np.zeros([4], np.int32)}, r"it is int32 of shape \(\)"),
    ],
)
def test_a_source_of_other_things(features, expected):
    with pytest.raises(DataError, match=expected):
        masked_source(ArraySource(features), masking=HOW)


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: Masking(vocab_size=4, max_predictions=1), "vocab_size=4: give more than the special tokens'"),
        (lambda: Masking(vocab_size=99, max_predictions=0), "max_predictions=0: give at least 1"),
        (lambda: Masking(vocab_size=99, max_predictions=1, rate=0.0), "the masking rate is 0.0"),
        (lambda: Masking(vocab_size=99, max_predictions=1, rate=15), "the masking rate is 15"),
        (lambda: HOW.predictions(16), "max_predictions=20 is more than sequence_length=16: give about 3"),
    ],
)
def test_settings_out_of_range(make, expected):
    with pytest.raises(UsageError, match=expected):
        make()


def test_default_predictions():
    # BERT's README: "max_predictions_per_seq" about sequence length x rate; its examples are 20 for 128.
    assert [default_predictions(length) for length in (5, 100, 128, 512)] == [1, 15, 20, 77]
