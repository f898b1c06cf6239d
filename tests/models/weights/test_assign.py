"""What a model takes from a file, what it says of the rest, and what it refuses, as a whole."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find
from tpuloop.models.weights.report import Report

ENCODER = {
    "bert/embeddings/word_embeddings": [6, 4],
    "bert/embeddings/position_embeddings": [5, 4],
    "bert/pooler/dense/kernel": [4, 4],
}
HEAD = {"logits/kernel": [4, 3], "logits/bias": [3]}


@pytest.fixture
def load(tmp_path):
    """`load(model, arrays)`: assigns what a file with `arrays` holds."""

    def run(model, arrays):
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, tmp_path / "a.safetensors")
        return assign(model, find(str(tmp_path / "a.safetensors")).open())

    return run


def test_every_variable_takes_its_value(named_model, random_arrays, load):
    model, arrays = named_model({**ENCODER, **HEAD}), random_arrays({**ENCODER, **HEAD})
    report = load(model, arrays)
    assert report == Report("original BERT", tuple(sorted(arrays)), (), ())
    values = model.values()
    for name, array in arrays.items():
        np.testing.assert_array_equal(values[name], array)


def test_what_either_side_lacks_is_listed_by_name_and_stays(named_model, random_arrays, load):
    model = named_model({**ENCODER, **HEAD})
    report = load(model, random_arrays({**ENCODER, "cls/predictions/output_bias": [6], "beta1_power": []}))
    assert report == Report(
        "original BERT", tuple(sorted(ENCODER)), ("logits/bias", "logits/kernel"), ("cls/predictions/output_bias",)
    )
    assert report.summary("bert.safetensors") == (
        "3 of 5 variables from bert.safetensors (original BERT); new: logits/bias, logits/kernel; "
        "not used: cls/predictions/output_bias"
    )
    assert not model.values()["logits/kernel"].any() and model.values()["bert/pooler/dense/kernel"].all()


def test_heads_are_named_in_the_summary_whatever_their_number_and_all_else_in_warnings():
    heads = tuple(f"cls/{number:02}" for number in range(12))
    others = tuple(f"n{number:02}" for number in range(12))
    report = Report("L", ("a",), heads + others, heads + others, foreign=others)
    assert report.summary("P") == (
        f"1 of 25 variables from P (L); new: {', '.join(heads)}; missing in the file: 12; "
        f"not used: {', '.join(heads)}; unknown to the model: 12"
    )
    assert report.warnings("P") == [
        f"P has no {', '.join(others)}: they start from initial values",
        f"the model has no place for {', '.join(others)} of P: they are not used",
    ]


def test_a_pooler_is_no_matter_for_a_warning_on_either_side_and_an_embedding_is(named_model, random_arrays, load):
    pooler = {name: shape for name, shape in ENCODER.items() if "pooler" in name}
    rest = {name: shape for name, shape in ENCODER.items() if "pooler" not in name}
    for model, file in ((ENCODER, rest), (rest, ENCODER)):
        report = load(named_model(model), random_arrays(file))
        assert (report.new or report.unused) == tuple(pooler) and report.warnings("P") == []
    less = {name: shape for name, shape in ENCODER.items() if "position" not in name}
    for model, file in ((ENCODER, less), (less, ENCODER)):
        (line,) = load(named_model(model), random_arrays(file)).warnings("P")
        assert " bert/embeddings/position_embeddings" in line


def test_a_head_for_other_classes_stays_new_and_is_said_to(named_model, random_arrays, load):
    model = named_model({**ENCODER, **HEAD})
    report = load(model, random_arrays({**ENCODER, "logits/kernel": [4, 2], "logits/bias": [2]}))
    assert report.new == ("logits/bias", "logits/kernel") and report.loaded == tuple(sorted(ENCODER))
    assert "new: logits/bias, logits/kernel (the file's logits are for 2 classes)" in report.summary("P")
    assert not model.values()["logits/kernel"].any() and not model.values()["logits/bias"].any()


@pytest.mark.parametrize(
    "names, task",
    [
        (("classifier.weight", "classifier.bias"), "logits"),
        (("qa_outputs.weight", "qa_outputs.bias"), "span_logits"),
        (("output_weights", "output_bias"), "logits"),
        (("cls/squad/output_weights", "cls/squad/output_bias"), "span_logits"),
    ],
)
def test_a_head_goes_into_one_of_the_same_task_and_into_no_other_of_its_size(named_model, load, names, task):
    kernel, bias = np.arange(8, dtype=np.float32).reshape(2, 4), np.float32([1, 2])
    if "." in names[0]:
        arrays = {"embeddings.word_embeddings.weight": np.ones([6, 4])}
        arrays["encoder.layer.0.attention.self.query.weight"] = np.ones([4, 4])
    else:
        arrays = {"bert/embeddings/word_embeddings": np.ones([6, 4])}
    for ours in ("logits", "span_logits"):
        head = (f"{ours}/bias", f"{ours}/kernel")
        model = named_model({"bert/embeddings/word_embeddings": [6, 4], head[1]: [4, 2], head[0]: [2]})
        report = load(model, {**arrays, names[0]: kernel, names[1]: bias})
        same = ours == task
        assert report.new == (() if same else head)
        assert set(names).isdisjoint(report.unused) if same else set(names) <= set(report.unused)
        assert set(names).isdisjoint(report.foreign)
        np.testing.assert_array_equal(model.values()[head[1]], kernel.T if same else np.zeros([4, 2]))
        np.testing.assert_array_equal(model.values()[head[0]], bias if same else np.zeros([2]))


TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


@pytest.mark.parametrize("untied", [None, *TIED])
def test_a_decoder_that_is_no_copy_is_an_error_of_the_model_that_ties_it(named_model, random_arrays, load, untied):
    arrays = random_arrays({TIED["cls.predictions.decoder.weight"]: [6, 4], "cls.predictions.bias": [6]})
    arrays.update({decoder: arrays[name].copy() for decoder, name in TIED.items()})
    arrays["bert.encoder.layer.0.attention.self.query.weight"] = np.ones([4, 4])
    encoder = {"bert/embeddings/word_embeddings": [6, 4], "bert/encoder/layer_0/attention/self/query/kernel": [4, 4]}
    model = named_model({**encoder, "cls/predictions/output_bias": [6]})
    if untied is None:
        report = load(model, arrays)
        assert report.new == report.unused == ()
        return
    arrays[untied][-1] += 1e-3
    with pytest.raises(ValueError) as raised:
        load(model, arrays)
    assert str(raised.value) == (
        f"{untied} differs from {TIED[untied]}, and the model ties them, to one variable: use weights that are tied"
    )
    assert not any(value.any() for value in model.values().values())
    # A vocabulary that was padded in the decoder only.
    arrays[untied] = np.concatenate([arrays[TIED[untied]]] * 2)
    with pytest.raises(ValueError, match=f"{untied} differs"):
        load(model, arrays)
    load(named_model(encoder), arrays)  # Without that head it is no matter.


@pytest.mark.parametrize(
    "name, shape, message",
    [
        (
            "bert/embeddings/word_embeddings",
            [9, 4],
            "bert/embeddings/word_embeddings has shape (9, 4) in the file and (6, 4) in the model: use the vocabulary "
            "that the weights were trained with",
        ),
        (
            "bert/embeddings/position_embeddings",
            [512, 4],
            "bert/embeddings/position_embeddings has shape (512, 4) in the file and (5, 4) in the model: build the "
            "model with max_positions=512, whatever its sequence length",
        ),
        (
            "stem_conv/kernel",
            [7, 7, 3, 4],
            "stem_conv/kernel has shape (7, 7, 3, 4) in the file and (3, 3, 3, 4) in the model: build the model with "
            "the stem that the weights were trained with",
        ),
        (
            "bert/pooler/dense/kernel",
            [4, 2],
            "bert/pooler/dense/kernel has shape (4, 2) in the file and (4, 4) in the model: build the model with the "
            "sizes of the file, or use a file of this model",
        ),
        (
            "logits/kernel",
            [5, 3],
            "logits/kernel has shape (5, 3) in the file and (4, 3) in the model: build the model with the sizes of the "
            "file, or use a file of this model",
        ),
        (
            "logits/kernel",
            [3],
            "logits/kernel has shape (3,) in the file and (4, 3) in the model: build the model with the sizes of the "
            "file, or use a file of this model",
        ),
    ],
)
def test_another_size_is_an_error_that_changes_nothing(named_model, random_arrays, load, name, shape, message):
    model = named_model({**ENCODER, **HEAD, "stem_conv/kernel": [3, 3, 3, 4]})
    with pytest.raises(ValueError) as raised:
        load(model, random_arrays({**ENCODER, **HEAD, name: shape}))
    assert str(raised.value) == message
    assert not any(value.any() for value in model.values().values())


def test_of_many_wrong_sizes_one_is_shown_and_the_others_are_counted(named_model, random_arrays, load):
    with pytest.raises(ValueError, match=r"\(5, 8\) .* \(5, 4\) .*\(and so for 2 more\): build the model with the"):
        load(named_model(ENCODER), random_arrays({name: [shape[0], 8] for name, shape in ENCODER.items()}))


def test_an_array_of_a_rank_that_cannot_be_converted_is_named(named_model, load):
    model = named_model({"stem_conv/kernel": [7, 7, 3, 4]})
    arrays = {"conv1.weight": np.zeros([4, 3]), "layer1.0.conv1.weight": np.zeros([1, 1, 1, 1])}
    with pytest.raises(ValueError, match=r"it holds conv1.weight \(4, 3\), which is no such weight"):
        load(model, arrays)


@pytest.mark.parametrize(
    "array, message",
    [
        (np.ones([4, 4], np.int8), "bert/pooler/dense/kernel holds int8, which are no weights"),
        (np.ones([4, 4], bool), "bert/pooler/dense/kernel holds bool, which are no weights"),
        (np.full([4, 4], np.nan, np.float32), "bert/pooler/dense/kernel holds numbers that are not finite"),
        (np.full([4, 4], 1e300), "bert/pooler/dense/kernel holds numbers that are not finite in float32"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_what_no_weight_can_be_is_refused_and_nothing_is_taken(named_model, random_arrays, load, array, message):
    model, arrays = named_model(ENCODER), random_arrays(ENCODER)
    before = {name: np.array(value) for name, value in model.values().items()}
    with pytest.raises(ValueError, match=message):
        load(model, {**arrays, "bert/pooler/dense/kernel": array})
    for name, value in model.values().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_head_whose_parts_differ_in_their_classes_is_damaged_and_not_another_head(named_model, random_arrays, load):
    shapes = {**ENCODER, **HEAD}
    with pytest.raises(ValueError, match=r"logits/bias has shape \(12,\) in the file and \(3,\) in the model"):
        load(named_model(shapes), {**random_arrays(shapes), "logits/bias": np.ones([12], np.float32)})


def test_a_file_of_another_model_is_an_error(named_model, random_arrays, load):
    with pytest.raises(ValueError, match=r"nothing in it \(original BERT\) belongs to the model named"):
        load(named_model({"hidden_0/kernel": [2, 2]}), random_arrays(ENCODER))
    # Nor is a head of another size enough.
    with pytest.raises(ValueError, match="nothing in it"):
        load(named_model({"hidden_0/kernel": [2, 2], **HEAD}), random_arrays({"logits/bias": [7]}))


def test_a_damaged_file_leaves_the_model_as_it_was(named_model, random_arrays, write_saver, tmp_path):
    model = named_model(ENCODER)
    prefix = write_saver(random_arrays(ENCODER))
    data = tmp_path / "bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-5])
    with pytest.raises(ValueError, match="is damaged or not complete"):
        assign(model, find(prefix).open())
    assert not any(value.any() for value in model.values().values())


def test_a_model_that_is_not_built_or_has_a_name_twice_is_refused(named_model, random_arrays, load):
    with pytest.raises(ValueError, match="the model is not built"):
        load(tf.keras.Sequential([tf.keras.layers.Dense(1)]), random_arrays(ENCODER))
    model = named_model(ENCODER)
    model.more = tf.Variable(tf.zeros([1]), name="bert/pooler/dense/kernel")
    with pytest.raises(ValueError, match="the model has two variables called bert/pooler/dense/kernel"):
        load(model, random_arrays(ENCODER))


def test_every_replica_takes_the_values_and_so_do_averages_that_each_keeps_for_itself(runtimes, load):
    with runtimes(2).scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(2, name="hidden_0"), tf.keras.layers.BatchNormalization(name="norm_0")]
        )
        model.build([None, 3])
    arrays = {
        variable.name[:-2]: np.arange(variable.shape.num_elements(), dtype=np.float32).reshape(variable.shape) + index
        for index, variable in enumerate(model.variables)
    }
    load(model, arrays)
    for variable in model.variables:
        for part in variable.values:
            np.testing.assert_array_equal(part, arrays[variable.name[:-2]])


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_under_mixed_precision_the_variables_take_the_values_in_float32(policy, load):
    tf.keras.mixed_precision.set_global_policy(policy)
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, name="hidden_0")])
    model.build([None, 1])
    load(model, {"hidden_0/kernel": np.float32([[1 + 2**-20, 3]]), "hidden_0/bias": np.float32([0, 0])})
    assert model.layers[0].kernel.dtype == tf.float32
    np.testing.assert_array_equal(model.layers[0].kernel, [[1 + 2**-20, 3]])
