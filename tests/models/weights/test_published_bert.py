"""BERT from files of others: which of it goes where. What the model then computes, tests/models/bert compares."""

import pathlib

import numpy as np
import tensorflow as tf
from tpuloop.models.bert import bert
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find

GOLDEN = pathlib.Path(__file__).parents[1] / "bert" / "golden"
ENCODER = 5 + 2 * 16  # Variables without the pooler.


def tiny(task, **arguments):
    return bert(
        vocab_size=100, sequence_length=16, width=32, heads=4, feed_forward=64, max_positions=24, task=task,
        **{"layers": 2, **arguments},
    )  # fmt: skip


def test_fine_tuning_takes_the_encoder_and_makes_a_new_head():
    model = tiny("classification", num_classes=3)
    report = assign(model, find(str(GOLDEN)).open())
    assert len(report.loaded) == ENCODER + 2 and report.new == ("logits/bias", "logits/kernel")
    assert report.unused == (
        "cls.predictions.bias",
        "cls.predictions.transform.LayerNorm.bias",
        "cls.predictions.transform.LayerNorm.weight",
        "cls.predictions.transform.dense.bias",
        "cls.predictions.transform.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    )


def test_two_layers_into_four_and_into_one_are_warned_of_by_every_name():
    report = assign(tiny("classification", num_classes=3, layers=4), find(str(GOLDEN)).open())
    assert len(report.missing) == 2 * 16 and set(report.new) - set(report.missing) == {"logits/bias", "logits/kernel"}
    (line,) = report.warnings("P")
    assert line.startswith("P has no bert/encoder/layer_2/attention/output/LayerNorm/beta, ")
    assert all(name in line for name in report.missing) and "logits" not in line
    report = assign(tiny("pretraining", layers=1), find(str(GOLDEN)).open())
    assert (len(report.foreign), report.new, report.unused) == (16, (), report.foreign)
    (line,) = report.warnings("P")
    assert line.startswith("the model has no place for bert.encoder.layer.1.attention.output.LayerNorm.bias, ")
    assert all(name in line for name in report.foreign) and line.endswith(" of P: they are not used")


def test_the_original_release_in_a_folder_with_slots_of_its_optimizer(tmp_path, write_saver):
    trained = tiny("pretraining")
    by_name = {variable.name[:-2]: variable.numpy() + 0.5 for variable in trained.variables}
    slots = {f"bert/pooler/dense/kernel/{slot}": by_name["bert/pooler/dense/kernel"] for slot in ("adam_m", "adam_v")}
    write_saver({**by_name, **slots, "global_step": np.int64(1000000)})
    model = tiny("pretraining")
    report = assign(model, find(str(tmp_path)).open())
    assert (report.layout, report.new, report.unused) == ("original BERT", (), ())
    assert report.summary("P") == (
        f"{ENCODER + 9} of {ENCODER + 9} variables from P (original BERT); the original release computes GELU by tanh, "
        "the model exactly: build it with activation='gelu_tanh' for the same"
    )
    for variable in model.variables:
        np.testing.assert_array_equal(variable, by_name[variable.name[:-2]])


def test_a_keras_file_of_our_own_bert_goes_into_every_replica(tmp_path, runtimes):
    trained = tiny("masked_lm")
    trained.save_weights(str(tmp_path / "a.h5"))
    tf.keras.utils.set_random_seed(2)
    with runtimes(2).scope():
        model = tiny("masked_lm")
    assert assign(model, find(str(tmp_path / "a.h5")).open()).new == ()
    for variable, expected in zip(model.variables, trained.variables):
        for part in variable.values:
            np.testing.assert_array_equal(part, expected)
