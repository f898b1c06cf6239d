"""BERT from files of others: what our model then computes is what theirs did."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.bert import bert
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find

GOLDEN = pathlib.Path(__file__).parent / "golden" / "bert"
ENCODER = 5 + 2 * 16  # Variables without the pooler.


def tiny(task, **arguments):
    return bert(
        vocab_size=20, sequence_length=6, layers=2, width=8, heads=2, feed_forward=16, max_positions=12, task=task,
        **arguments,
    )  # fmt: skip


def arrays():
    values = find(str(GOLDEN)).open()
    return {name: values.read(name) for name in values.shapes}


def test_a_bert_of_transformers_computes_the_same_here():
    golden = {name: np.array(value) for name, value in json.loads((GOLDEN / "outputs.json").read_text()).items()}
    model = tiny("pretraining")
    report = assign(model, find(str(GOLDEN)).open())
    assert (report.layout, len(report.loaded), report.new, report.unused) == ("Hugging Face BERT", ENCODER + 9, (), ())
    features = {name: golden[name].astype(np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    features["masked_lm_positions"] = np.tile(np.arange(6, dtype=np.int32), [2, 1])
    outputs = model(features, training=False)
    np.testing.assert_allclose(outputs["next_sentence"], golden["next_sentence"], atol=1e-4)
    np.testing.assert_allclose(outputs["masked_lm"], golden["masked_lm"], atol=1e-4)


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


@pytest.mark.parametrize("task, head", [("span", "qa_outputs"), ("tagging", "classifier")])
def test_a_fine_tuned_head_is_loaded_too(tmp_path, task, head):
    weight = np.arange(16, dtype=np.float32).reshape(2, 8)
    save_file({**arrays(), f"{head}.weight": weight, f"{head}.bias": np.float32([1, 2])}, tmp_path / "a.safetensors")
    model = tiny(task, num_classes=2)
    assert assign(model, find(str(tmp_path)).open()).new == ()
    np.testing.assert_array_equal(model.get_layer("logits").kernel, weight.T)
    np.testing.assert_array_equal(model.get_layer("logits").bias, [1, 2])


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
