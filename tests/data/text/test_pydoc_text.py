"""The text that comes with CPython, and the data set made of it."""

import sys

import numpy as np
import pytest

from tpuloop.commands import assemble
from tpuloop.commands.recipe import make_recipe
from tpuloop.data.sets.pydoc import pydoc
from tpuloop.data.text import pydoc_text
from tpuloop.errors import UsageError


def test_passages():
    passages = pydoc_text.passages()
    paragraphs = [paragraph for passage in passages for paragraph in passage.split("\n")]
    assert len(set(paragraphs)) == len(paragraphs)
    assert 290_000 < sum(map(len, passages)) < 360_000  # On 3.8 to 3.10.
    assert 250 < len(passages) < 350
    lengths = sorted(map(len, passages))
    assert lengths[len(lengths) // 2] < 1500 and lengths[-1] < 6000
    assert any('The simple form, "assert expression", is equivalent to' in passage for passage in passages)


def test_the_split_is_by_text():
    passages = pydoc_text.passages()
    train, held_out = pydoc_text.split(passages)
    assert sorted(train + held_out) == sorted(passages)
    assert 0.05 < sum(map(len, held_out)) / sum(map(len, passages)) < 0.16
    # Text that is added elsewhere moves nothing.
    assert (
        pydoc_text.split([*passages[1::2], "new"])[1]
        == [text for text in passages[1::2] if text in held_out] + (pydoc_text.split(["new"])[1])
    )


def rows(source, count, **options):
    return list(source.batches(batch_size=count, seed=0, **options).take(1))[0]


@pytest.fixture(scope="module")
def data():
    return pydoc(sequence_length=64, vocab_size=1000, masking="static")


def test_what_the_data_set_holds(data):
    sizes = {"vocab_size": 1000, "sequence_length": 64, "max_predictions": 10}
    assert dict(data.model_arguments) == {**sizes, "task": "masked_lm"}
    assert data.description == (
        f"{data.train.size:,} sequences to train on, {data.evaluation.size:,} held out, 1,000 tokens in the vocabulary"
    )
    assert data.train.size > 1000 and 0.05 < data.evaluation.size / data.train.size < 0.2
    for source in (data.train, data.evaluation):
        spec = {name: (leaf.dtype.name, leaf.shape.as_list()) for name, leaf in source.element_spec.items()}
        assert spec == {
            **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ("int32", [64])),
            **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), ("int32", [10])),
            "masked_lm_weights": ("float32", [10]),
        }
        features = source.arrays
        # 0.15 x 64 = 9.6 places to predict; the last sequence may be short.
        assert (features["masked_lm_weights"].sum(axis=1)[:-1] == 10).all()
        assert features["input_mask"][:-1].all()
        assert features["input_ids"].max() < 1000
        share = (features["input_ids"] == 4).sum() / features["masked_lm_weights"].sum()
        assert 0.75 < share < 0.85
        assert (features["masked_lm_ids"][features["masked_lm_weights"] == 1] > 4).all()


def test_static_masks_follow_the_seed(data):
    again = pydoc(sequence_length=64, vocab_size=1000, masking="static").train.arrays
    other = pydoc(sequence_length=64, vocab_size=1000, masking="static", seed=1).train.arrays
    for name, values in data.train.arrays.items():
        np.testing.assert_array_equal(values, again[name])
    assert (other["masked_lm_positions"] != again["masked_lm_positions"]).mean() > 0.5


def test_masks_of_each_epoch(data):
    anew = pydoc(sequence_length=64, vocab_size=1000, mask_rate=0.3, max_predictions=12)
    assert anew.train.size == data.train.size
    batch = rows(anew.train, 32)
    assert batch["masked_lm_ids"].shape == (32, 12)
    np.testing.assert_array_equal(batch["masked_lm_weights"].numpy().sum(axis=1), 12)
    # Without its masks it is the same text.
    texts = {values.tobytes() for values in data_without_masks(data.train.arrays)}
    assert {values.tobytes() for values in data_without_masks({k: v.numpy() for k, v in batch.items()})} <= texts


def data_without_masks(features):
    ids = np.array(features["input_ids"])
    rows, places = np.nonzero(features["masked_lm_weights"])
    ids[rows, features["masked_lm_positions"][rows, places]] = features["masked_lm_ids"][rows, places]
    return ids


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"masking": "dynamic"}, "masking='dynamic': give 'each_epoch' or 'static'"),
        ({"vocab_size": 50}, "vocab_size=50 is too small"),
        ({"sequence_length": 3}, "sequence_length=3: give 5"),
        ({"max_predictions": 0}, "max_predictions=0: give at least 1"),
        ({"mask_rate": 1.5}, "the masking rate is 1.5"),
    ],
)
def test_arguments_out_of_range(arguments, expected):
    with pytest.raises(UsageError, match=expected):
        pydoc(**arguments)


def test_without_the_tokenizer_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name in [name for name in sys.modules if name.startswith("tokenizers.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UsageError, match=r"needs the package tokenizers .* pip install 'tpuloop\[text\]'") as error:
        assemble.load_data(make_recipe({"data": {"name": "pydoc"}}))
    assert "\n" not in str(error.value)


def test_a_recipe_names_it():
    data = assemble.load_data(make_recipe({"data": {"name": "pydoc", "sequence_length": 32, "vocab_size": 500}}))
    assert data.train.element_spec["input_ids"].shape == [32]
    with pytest.raises(UsageError, match="data 'pydoc' takes no argument 'vocabsize'; did you mean 'vocab_size'"):
        assemble.load_data(make_recipe({"data": {"name": "pydoc", "vocabsize": 500}}))
