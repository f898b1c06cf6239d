"""BERT from files of others: which of it goes where. What the model then computes, tests/models/bert compares."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.bert import bert
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find

GOLDEN = pathlib.Path(__file__).parents[1] / "bert" / "golden"
ENCODER = 5 + 2 * 16  # Variables without the pooler.


def tiny(task, **arguments):
    return bert(
        vocab_size=100, sequence_length=16, layers=2, width=32, heads=4, feed_forward=64, max_positions=24, task=task,
        **arguments,
    )  # fmt: skip


def arrays():
    values = find(str(GOLDEN)).open()
    return {name: values.read(name) for name in values.shapes}


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


HEADS = {"qa_outputs": "span_logits", "classifier": "logits", "cls/squad/output": "span_logits", "output": "logits"}


@pytest.fixture
def fine_tuned(tmp_path, write_saver):
    """`fine_tuned(head)`: the path of a file that has that head, of two outputs, and its kernel as ours lies."""

    def write(head):
        weight, bias = np.arange(64, dtype=np.float32).reshape(2, 32) + 1, np.float32([1, 2])
        if head.endswith("output"):
            encoder = {variable.name[:-2]: variable.numpy() for variable in tiny("tagging", num_classes=2).variables}
            encoder = {name: value for name, value in encoder.items() if name.startswith("bert/")}
            write_saver({**encoder, f"{head}_weights": weight, f"{head}_bias": bias})
        else:
            save_file({**arrays(), f"{head}.weight": weight, f"{head}.bias": bias}, tmp_path / "a.safetensors")
        return str(tmp_path), weight.T

    return write


@pytest.mark.parametrize("head", HEADS)
def test_a_fine_tuned_head_goes_into_a_head_of_the_same_task_only(fine_tuned, head):
    path, kernel = fine_tuned(head)
    models = {"logits": tiny("tagging", num_classes=2), "span_logits": tiny("span")}
    fitting = models.pop(HEADS[head])
    assert assign(fitting, find(path).open()).new == ()
    np.testing.assert_array_equal(fitting.get_layer(HEADS[head]).kernel, kernel)
    np.testing.assert_array_equal(fitting.get_layer(HEADS[head]).bias, [1, 2])
    ((ours, other),) = models.items()  # Of the same shapes, as both have two outputs.
    report = assign(other, find(path).open())
    assert report.new == (f"{ours}/bias", f"{ours}/kernel")
    assert {name for name in report.unused if name.startswith(head)} == (
        {f"{head}_bias", f"{head}_weights"} if head.endswith("output") else {f"{head}.bias", f"{head}.weight"}
    )
    assert not np.any(other.get_layer(ours).bias)


def test_the_original_release_in_a_folder_with_slots_of_its_optimizer(tmp_path, write_saver):
    trained = tiny("pretraining")
    by_name = {variable.name[:-2]: variable.numpy() + 0.5 for variable in trained.variables}
    slots = {f"bert/pooler/dense/kernel/{slot}": by_name["bert/pooler/dense/kernel"] for slot in ("adam_m", "adam_v")}
    write_saver({**by_name, **slots, "global_step": np.int64(1000000)})
    model = tiny("pretraining")
    report = assign(model, find(str(tmp_path)).open())
    assert (report.layout, report.new, report.unused) == ("original BERT", (), ())
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
