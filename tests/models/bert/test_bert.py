"""BERT's counts, names, inputs and heads; its numbers are compared in test_golden.py."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.bert import bert
from tpuloop.models.bert.dropout import dropout
from tpuloop.models.bert.settings import TASKS

SMALL = {"vocab_size": 50, "sequence_length": 8, "layers": 2, "width": 16, "heads": 2, "num_classes": 3}


def batch_of(model, size=2):
    numbers = np.random.RandomState(0)
    mask = np.ones([size, 8], np.int32)
    mask[0, 5:] = 0
    batch = {
        "input_ids": numbers.randint(0, 50, [size, 8]).astype(np.int32),
        "input_mask": mask,
        "segment_ids": np.repeat([[0, 0, 0, 1, 1, 1, 1, 1]], size, axis=0).astype(np.int32),
        "masked_lm_positions": np.array([[1, 4, 2]] * size, np.int32),
    }
    return {name: batch[name] for name in model.input_names}


@pytest.mark.parametrize(
    "layers, width, parameters",
    [(2, 128, 4385920), (12, 768, 109482240), pytest.param(24, 1024, 335141888, marks=pytest.mark.slow)],
)
def test_the_encoder_with_its_pooler_has_the_published_count(layers, width, parameters):
    without = {"dropout": 0.0, "attention_dropout": 0.0}  # It has no parameters, and takes the longest to trace.
    with tf.Graph().as_default():  # Nothing is allocated.
        model = bert(vocab_size=30522, sequence_length=8, task="pretraining", layers=layers, width=width, **without)
    encoder = [variable for variable in model.variables if variable.name.startswith("bert/")]
    assert sum(variable.shape.num_elements() for variable in encoder) == parameters


@pytest.mark.parametrize("task", TASKS)
def test_names_are_unique_and_the_same_for_each_model_of_a_process(task):
    first, second = (bert(task=task, **SMALL) for _ in range(2))
    names = [variable.name for variable in first.variables]
    assert len(set(names)) == len(names)
    assert [variable.name for variable in second.variables] == names
    heads = {name for name in names if not name.startswith(("bert/embeddings/", "bert/encoder/"))}
    pooler = {"bert/pooler/dense/kernel:0", "bert/pooler/dense/bias:0"}
    logits = {"logits/kernel:0", "logits/bias:0"}
    words = {f"cls/predictions/transform/{name}:0" for name in ("dense/kernel", "dense/bias")}
    words |= {f"cls/predictions/transform/LayerNorm/{name}:0" for name in ("gamma", "beta")}
    words |= {"cls/predictions/output_bias:0"}
    sentence = {"cls/seq_relationship/output_weights:0", "cls/seq_relationship/output_bias:0"}
    assert (
        heads
        == {
            "masked_lm": words,
            "pretraining": pooler | words | sentence,
            "classification": pooler | logits,
            "tagging": logits,
            "span": {"span_logits/kernel:0", "span_logits/bias:0"},
        }[task]
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("task", TASKS)
def test_outputs_are_float32_of_the_shape_of_their_task(task, policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    model = bert(task=task, **SMALL)
    assert model.get_layer("bert/encoder/layer_1").output.dtype == ("bfloat16" if policy != "float32" else "float32")
    outputs = model(batch_of(model), training=True)
    assert (
        tf.nest.map_structure(lambda output: (tuple(output.shape), output.dtype.name), outputs)
        == {
            "masked_lm": ((2, 3, 50), "float32"),
            "pretraining": {"masked_lm": ((2, 3, 50), "float32"), "next_sentence": ((2, 2), "float32")},
            "classification": ((2, 3), "float32"),
            "tagging": ((2, 8, 3), "float32"),
            "span": {"start": ((2, 8), "float32"), "end": ((2, 8), "float32")},
        }[task]
    )
    assert all(np.isfinite(output).all() for output in tf.nest.flatten(outputs))
    assert {variable.dtype.name for variable in model.variables} == {"float32"}


@pytest.mark.parametrize("task", ["masked_lm", "pretraining", "tagging"])
def test_logits_under_bfloat16_have_the_resolution_of_float32(task):
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = bert(task=task, **SMALL)
    for logits in tf.nest.flatten(model(batch_of(model))):
        rounded = tf.cast(tf.cast(logits, tf.bfloat16), tf.float32)
        assert np.mean(rounded != logits) > 0.9  # One float32 in 2**16 is a bfloat16 too.


def test_shapes_are_static_where_the_number_of_predictions_is():
    assert bert(max_predictions=3, **SMALL).output_shape == (None, 3, 50)
    assert bert(**SMALL).output_shape == (None, None, 50)


def tagger(**arguments):
    """A tagging model whose weights are large enough to tell its inputs apart."""
    model = bert(task="tagging", **{**SMALL, **arguments})
    for variable in model.variables:
        variable.assign(tf.random.normal(variable.shape, stddev=0.3) + float("gamma" in variable.name))
    return model


def test_what_is_masked_changes_nothing():
    model = tagger()
    x = batch_of(model)
    before = model(x).numpy()
    for name in ("input_ids", "segment_ids"):
        x[name] = x[name].copy()
        x[name][0, 5:] = 1 - x[name][0, 5:] % 2
    after = model(x).numpy()
    np.testing.assert_array_equal(after[0, :5], before[0, :5])
    assert np.abs(after[0, 5:] - before[0, 5:]).max() > 0.1  # They did change,
    x["input_mask"] = np.ones_like(x["input_mask"])
    assert np.abs(model(x).numpy()[0, :5] - before[0, :5]).max() > 0.01  # and unmasked they matter.


@pytest.mark.parametrize("name", ["input_ids", "segment_ids"])
def test_each_token_and_segment_reaches_all_positions(name):
    model = tagger()
    x = batch_of(model)
    before = model(x).numpy()
    x[name] = x[name].copy()
    x[name][1, 6] = 1 - x[name][1, 6] % 2
    difference = np.abs(model(x).numpy() - before).max(axis=-1)
    assert (difference[1] > 1e-3).all() and (difference[0] == 0).all()


def test_predictions_are_those_of_the_positions_asked_for():
    model = bert(**SMALL)
    x = batch_of(model)
    all_of_them = model({**x, "masked_lm_positions": np.repeat([np.arange(8)], 2, axis=0).astype(np.int32)}).numpy()
    x["masked_lm_positions"] = np.array([[7, 0, 3], [2, 2, 5]], np.int32)
    found = model(x).numpy()
    np.testing.assert_allclose(found[0], all_of_them[0, [7, 0, 3]], atol=1e-6)
    np.testing.assert_allclose(found[1], all_of_them[1, [2, 2, 5]], atol=1e-6)
    assert np.abs(all_of_them[0, 7] - all_of_them[0, 0]).max() > 1e-3


def test_the_table_of_words_learns_from_both_of_its_uses():
    model = bert(**SMALL)
    table = next(variable for variable in model.variables if "word_embeddings" in variable.name)
    x = batch_of(model)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(x)))
    gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()

    def loss_with(change):
        start = table.numpy()
        table.assign(start + change)
        result = float(tf.reduce_sum(tf.square(tf.cast(model(x), tf.float64))))
        table.assign(start)
        return result

    # A word of the input, and one that is only ever an output.
    absent = next(word for word in range(50) if word not in x["input_ids"])
    for word in (x["input_ids"][1, 1], absent):
        change = np.zeros([50, 16], np.float32)
        change[word] = 1e-2 * gradient[word] / np.linalg.norm(gradient[word])
        slope = (loss_with(change) - loss_with(-change)) / 2e-2
        np.testing.assert_allclose(slope, np.linalg.norm(gradient[word]), rtol=0.03)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_keeps_its_share_and_the_mean(dtype):

    ones = tf.ones([400, 125], dtype)  # An odd row, so that half a number is left over in each.
    thin = tf.cast(dropout(ones, 0.1, tf.constant([1, 2])), tf.float32).numpy()
    # 50,000 draws: one standard deviation of the share is 0.0013.
    assert abs((thin == 0).mean() - 0.1) < 0.006
    np.testing.assert_allclose(thin[thin != 0], 1 / 0.9, rtol=5e-3)
    assert np.abs((thin == 0).mean(axis=0) - 0.1).max() < 0.08  # In every column
    # Neither half of a number follows the other.
    assert abs(np.corrcoef((thin[:, :62] == 0).ravel(), (thin[:, 63:] == 0).ravel())[0, 1]) < 0.03


def test_dropout_is_for_training_and_new_at_each_call():
    model = bert(**SMALL)
    x = batch_of(model)
    np.testing.assert_array_equal(model(x), model(x, training=False))
    once, again = (model(x, training=True).numpy() for _ in range(2))
    assert np.abs(once - again).max() > 1e-3 and np.abs(once - model(x)).max() > 1e-3
    still = bert(dropout=0.0, attention_dropout=0.0, **SMALL)
    np.testing.assert_array_equal(still(x, training=True), still(x, training=False))


def test_layers_can_be_built_again_from_their_settings():
    model = tagger(recompute=True)
    twin = tf.keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    np.testing.assert_array_equal(twin(batch_of(model)), model(batch_of(model)))


@pytest.mark.parametrize(
    "task, name",
    [
        *((task, "model.h5") for task in TASKS),
        # Both together have all kinds of layers.
        *(pytest.param(task, "folder", marks=pytest.mark.slow) for task in ("pretraining", "span")),
    ],
)
def test_a_saved_model_loads_without_naming_our_layers(task, name, tmp_path):
    model = bert(task=task, **{**SMALL, "layers": 1})
    model.save(tmp_path / name)
    loaded = tf.keras.models.load_model(tmp_path / name)
    tf.nest.map_structure(np.testing.assert_array_equal, loaded(batch_of(model)), model(batch_of(model)))
    assert [variable.name for variable in loaded.variables] == [variable.name for variable in model.variables]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"task": "translation"}, "task must be one of masked_lm, .*, span; it is 'translation'"),
        ({"vocab_size": 0}, "vocab_size must be an integer of at least 1; it is 0"),
        ({"layers": 1.5}, "layers must be an integer of at least 1; it is 1.5"),
        ({"layers": True}, "layers must be an integer of at least 1; it is True"),
        ({"heads": 3}, "width must be a multiple of heads; width is 16, heads is 3"),
        ({"heads": None}, "width must be a multiple of 64 where heads is not given; it is 16: give heads"),
        ({"heads": "2"}, "heads must be an integer of at least 1; it is '2'"),
        ({"feed_forward": -1}, "feed_forward must be an integer of at least 1; it is -1"),
        ({"sequence_length": 513}, "sequence_length must be at most max_positions; it is 513, max_positions is 512"),
        ({"sequence_length": None}, "sequence_length must be an integer of at least 1; it is None"),
        ({"task": "tagging", "num_classes": None}, "num_classes must be an integer of at least 1; it is None"),
        ({"max_predictions": 0}, "max_predictions must be an integer of at least 1; it is 0"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1; it is 1.0"),
        ({"attention_dropout": "0.1"}, "attention_dropout must be a number of at least 0 and below 1; it is '0.1'"),
        ({"activation": "relu"}, "activation must be one of gelu, gelu_tanh; it is 'relu'"),
        ({"activation": ["gelu"]}, r"activation must be one of gelu, gelu_tanh; it is \['gelu'\]"),
        ({"recompute": 1}, "recompute must be True or False; it is 1"),
    ],
)
def test_what_makes_no_network_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        bert(**{**SMALL, **arguments})


@pytest.mark.parametrize("place", [-1, SMALL["sequence_length"]])
def test_a_masked_place_outside_its_sequence_is_an_error_and_none_of_the_next_example(place):
    model = bert(task="masked_lm", **SMALL)
    batch = batch_of(model)
    positions = np.zeros_like(batch["masked_lm_positions"])
    positions[0, 0] = place
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        model({**batch, "masked_lm_positions": positions})
