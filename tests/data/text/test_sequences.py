"""Sequences: by hand, and by what must hold of any."""

import collections

import numpy as np
import pytest

from tpuloop.data.text.sequences import Layout, sentence_pairs, stacked
from tpuloop.data.text.special import SpecialTokens
from tpuloop.errors import UsageError

PAD, CLS, SEP = 0, 2, 3


def ids(*tokens):
    return np.array(tokens, np.int32)


def rows(examples, name="input_ids"):
    return [example[name].tolist() for example in examples]


def test_padded_by_hand():
    layout = Layout(6)
    short, long, empty = (layout.padded(tokens) for tokens in (ids(10, 11), ids(*range(10, 20)), ids()))
    assert rows([short, long, empty]) == [[2, 10, 11, 3, 0, 0], [2, 10, 11, 12, 13, 3], [2, 3, 0, 0, 0, 0]]
    assert rows([short, long, empty], "input_mask") == [[1, 1, 1, 1, 0, 0], [1] * 6, [1, 1, 0, 0, 0, 0]]
    for example in (short, long, empty):
        assert {name: value.dtype for name, value in example.items()} == dict.fromkeys(
            ("input_ids", "input_mask", "segment_ids"), np.int32
        )
        assert not example["segment_ids"].any()


def test_packed_by_hand():
    documents = [ids(10, 11, 12), ids(), ids(20), ids(30, 31, 32, 33, 34, 35, 36)]
    examples = list(Layout(6).packed(documents))
    assert rows(examples) == [[2, 10, 11, 12, 3, 20], [2, 3, 30, 31, 32, 33], [2, 34, 35, 36, 3, 0]]
    assert rows(examples, "input_mask") == [[1] * 6, [1] * 6, [1, 1, 1, 1, 1, 0]]
    assert list(Layout(6).packed([])) == []
    assert rows(Layout(5).packed([ids(10, 11, 12)])) == [[2, 10, 11, 12, 3]]


def test_packed_keeps_every_token_once():
    random = np.random.default_rng(0)
    documents = [random.integers(5, 100, random.integers(0, 70)).astype(np.int32) for _ in range(200)]
    examples = list(Layout(16).packed(iter(documents)))
    assert all(example["input_mask"].all() for example in examples[:-1])
    assert all(example["input_ids"][0] == CLS for example in examples)
    found = np.concatenate([example["input_ids"][example["input_mask"] == 1][1:] for example in examples])
    expected = np.concatenate([np.append(tokens, SEP) for tokens in documents if len(tokens)])
    np.testing.assert_array_equal(found, expected)


def test_pair_by_hand():
    example = Layout(9).pair(ids(10, 11), ids(20), random_next=True)
    assert example["input_ids"].tolist() == [2, 10, 11, 3, 20, 3, 0, 0, 0]
    assert example["input_mask"].tolist() == [1, 1, 1, 1, 1, 1, 0, 0, 0]
    assert example["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0]
    assert example["next_sentence_labels"] == 1 and example["next_sentence_labels"].shape == ()
    assert example["next_sentence_labels"].dtype == np.int32
    with pytest.raises(ValueError, match="7 tokens do not fit into 6"):
        Layout(6).pair(ids(10, 11), ids(20, 21), random_next=False)


def test_special_ids_are_the_vocabularys():
    layout = Layout(6, SpecialTokens(pad=9, unknown=8, start=7, separator=6, mask=5))
    assert layout.padded(ids(1))["input_ids"].tolist() == [7, 1, 6, 9, 9, 9]


@pytest.mark.parametrize("length", [4, 70_000])
def test_lengths_out_of_range(length):
    with pytest.raises(UsageError, match=f"sequence_length={length}: give 5"):
        Layout(length)


def corpus(documents, sentences, *, seed=0):
    """Documents whose tokens say where they come from: 1000 x document + 20 x sentence + place, from 1000 on."""
    random = np.random.default_rng(seed)
    return [
        [1000 * (d + 1) + 20 * s + np.arange(random.integers(1, 19)) for s in range(sentences)]
        for d in range(documents)
    ]


def parts(example):
    """A, B and the label."""
    tokens, segments = example["input_ids"], example["segment_ids"]
    assert tokens[0] == CLS
    first_end, second_end = np.flatnonzero(tokens == SEP)
    assert not segments[: first_end + 1].any() and segments[first_end + 1 : second_end + 1].all()
    assert not segments[second_end + 1 :].any() and not tokens[second_end + 1 :].any()
    np.testing.assert_array_equal(example["input_mask"], np.arange(len(tokens)) <= second_end)
    return tokens[1:first_end], tokens[first_end + 1 : second_end], int(example["next_sentence_labels"])


def test_pairs_hold_what_they_say():
    documents = corpus(30, 40)
    layout = Layout(64)
    labels = collections.Counter()
    others = collections.Counter()
    for number, document in enumerate(documents):
        text = np.concatenate(document).tolist()
        place = {token: index for index, token in enumerate(text)}
        end = 0
        for example in sentence_pairs(documents, number, layout=layout, seed=5):
            first, second, label = parts(example)
            assert len(first) and len(second)
            assert set(first // 1000) == {number + 1}
            start = place[first[0]]
            assert text[start : start + len(first)] == first.tolist()
            (other,) = set(second // 1000 - 1)
            source = np.concatenate(documents[other]).tolist()
            begin = source.index(second[0])
            assert source[begin : begin + len(second)] == second.tolist()
            assert (other != number) == label
            if label == 0:
                # B follows A, but for tokens that were cut off: less than a sentence too many was there.
                assert 0 <= begin - start - len(first) < 20
            else:
                others[other] += 1
            # What B displaced is not lost: the next A begins where this A (or B) ended.
            assert 0 <= start - end < 20
            end = (begin if label == 0 else start) + len(second if label == 0 else first)
            labels[label] += 1
    total = sum(labels.values())
    assert total > 250
    # Within 4 standard deviations of a half; a run of a single sentence, which always has a random B, is rare here.
    assert abs(labels[1] - total / 2) < 4 * (total / 4) ** 0.5
    assert len(others) == 30


def test_a_tenth_of_the_documents_makes_shorter_runs():
    documents = corpus(400, 40)
    layout = Layout(64)

    def typical(number, share):
        pairs = sentence_pairs(documents, number, layout=layout, seed=0, short_share=share)
        return np.median([example["input_mask"].sum() for example in pairs])

    assert all(typical(number, 0.0) >= 60 for number in range(20))
    short = sum(typical(number, 0.1) < 50 for number in range(400))
    assert 15 <= short <= 50  # Of 40 short ones about a quarter is not shorter than this.
    assert sum(typical(number, 1.0) < 50 for number in range(40)) > 20


def test_pairs_are_a_function_of_seed_and_document_number():
    documents = corpus(6, 20)

    def pairs(number, *, seed=1, **options):
        found = list(sentence_pairs(documents, number, layout=Layout(32), seed=seed, **options))
        return stacked(found)["input_ids"].tolist()

    alone = pairs(4)
    for number in (0, 5):
        pairs(number)
    assert pairs(4) == alone
    assert pairs(4, first_number=100) == pairs(4, first_number=100) != alone
    assert pairs(4, seed=2) != alone


def test_a_document_of_one_sentence_gets_a_random_next():
    documents = [[ids(10, 11)], [ids(20)], [ids(30, 31, 32)]]
    for seed in range(20):
        (example,) = sentence_pairs(documents, 0, layout=Layout(16), seed=seed)
        first, second, label = parts(example)
        assert first.tolist() == [10, 11] and label == 1
        assert second.tolist() in ([20], [30, 31, 32])


def test_half_of_the_pairs_are_random_even_where_sentences_are_long():
    documents = [[sentence * 0 + 10 + n for n in range(50)] for sentence in [np.zeros(40, np.int32)] * 20]
    labels = [
        int(example["next_sentence_labels"])
        for number in range(20)
        for example in sentence_pairs(documents, number, layout=Layout(32), seed=0)
    ]
    # The last sentence of a document is left alone in about a third of them, of some 33 runs.
    assert len(labels) > 500
    assert abs(sum(labels) / len(labels) - 0.51) < 4 * 0.5 / len(labels) ** 0.5


def test_pairs_need_another_document():
    with pytest.raises(UsageError, match="sentence pairs need two documents"):
        list(sentence_pairs([[ids(1), ids(2)]], 0, layout=Layout(16), seed=0))


def test_both_ends_are_cut():
    documents = [[np.arange(100, 130), np.arange(200, 230)], [np.arange(300, 330)]]
    seen = set()
    for seed in range(40):
        example = next(iter(sentence_pairs(documents, 0, layout=Layout(23), seed=seed, short_share=0)))
        first, second, label = parts(example)
        assert len(first) == len(second) == 10
        seen.add((first[0] > 100, first[-1] < 129))
    assert (True, True) in seen
