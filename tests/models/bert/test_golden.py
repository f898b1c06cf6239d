"""The numbers of Hugging Face's BERT, which `golden/make_bert.py` made: outputs to 1e-4, gradients to 1e-3."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.bert import bert
from tpuloop.models.weights import hugging_face_bert
from tpuloop.models.weights.assign import assign
from tpuloop.models.weights.files import find

GOLDEN = pathlib.Path(__file__).parent / "golden"
SIZES = {"vocab_size": 100, "layers": 2, "width": 32, "heads": 4, "feed_forward": 64, "max_positions": 24}
HEADS = {"span": "qa_outputs", "tagging": "classifier"}


@pytest.fixture
def golden_model(tmp_path):
    """`golden_model(task)`: a model with the golden weights, heads included."""

    def make(task, **arguments):
        model = bert(sequence_length=16, task=task, **{**SIZES, **arguments})
        values = find(str(GOLDEN)).open()
        if task in HEADS:
            arrays = {name: values.read(name) for name in values.shapes}
            heads = np.load(GOLDEN / "heads.npz")
            arrays.update({f"{HEADS[task]}.{part}": heads[f"{task}.{part}"] for part in ("weight", "bias")})
            save_file(arrays, tmp_path / "model.safetensors")
            values = find(str(tmp_path)).open()
        report = assign(model, values)
        assert (report.layout, len(report.loaded), report.new) == ("Hugging Face BERT", len(model.weights), ())
        return model

    return make


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(GOLDEN / "golden.npz"))


def inputs_of(model, golden):
    return {name: golden[name] for name in model.input_names}


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("recompute", [False, True])
def test_pretraining_outputs_and_gradients(golden, golden_model, activation, recompute):
    model = golden_model("pretraining", activation=activation, recompute=recompute, dropout=0.0, attention_dropout=0.0)
    expected = {name.split("/", 1)[1]: value for name, value in golden.items() if name.startswith(f"{activation}/")}
    features = tf.keras.Model(
        model.inputs, [model.get_layer("bert/encoder/layer_1").output, model.get_layer("bert/pooler").output]
    )
    x = inputs_of(model, golden)
    sequence, pooled = features(x)
    with tf.GradientTape() as tape:
        outputs = model(x, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(golden["masked_lm_ids"], outputs["masked_lm"])
        weights = golden["masked_lm_weights"]
        loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
    for name, found in {"sequence": sequence, "pooled": pooled, **outputs, "loss": loss}.items():
        np.testing.assert_allclose(found, expected[name], atol=1e-4, err_msg=name)
    gradients = tape.gradient(loss, model.variables)
    theirs = hugging_face_bert.LAYOUT.sources(find(str(GOLDEN)).open().shapes, model)
    compared = 0
    for variable, gradient in zip(model.variables, gradients):
        source = theirs[variable.name[: -len(":0")]]
        name = source.names[0]
        if f"gradient:{name}" in expected:
            reference = source.convert(expected[f"gradient:{name}"])
            np.testing.assert_allclose(tf.convert_to_tensor(gradient), reference, atol=1e-3, err_msg=name)
            # Not by being small; but that a bias of keys is a constant of each softmax, whose gradient is 0.
            assert np.abs(reference).max() > 1e-2 or name.endswith("key.bias"), name
            compared += 1
    assert compared == sum(name.startswith("gradient:") for name in expected) == 14


def test_tagging_outputs(golden, golden_model):
    model = golden_model("tagging", num_classes=5)
    np.testing.assert_allclose(model(inputs_of(model, golden)), golden["gelu/tagging"], atol=1e-4)


def test_span_outputs(golden, golden_model):
    model = golden_model("span")
    outputs = model(inputs_of(model, golden))
    tokens = golden["input_mask"] == 1
    for part, name in enumerate(("start", "end")):
        np.testing.assert_allclose(outputs[name].numpy()[tokens], golden["gelu/span"][tokens, part], atol=1e-4)
        assert (outputs[name].numpy()[~tokens] == -1e9).all()


# The variables of BertModel and of run_pretraining.py in google-research/bert, of a model of two layers.
RELEASED = """
bert/embeddings/word_embeddings bert/embeddings/token_type_embeddings bert/embeddings/position_embeddings
bert/embeddings/LayerNorm/beta bert/embeddings/LayerNorm/gamma bert/pooler/dense/kernel bert/pooler/dense/bias
cls/predictions/transform/dense/kernel cls/predictions/transform/dense/bias cls/predictions/transform/LayerNorm/beta
cls/predictions/transform/LayerNorm/gamma cls/predictions/output_bias
cls/seq_relationship/output_weights cls/seq_relationship/output_bias
""".split()
RELEASED_LAYER = """
attention/self/query/kernel attention/self/query/bias attention/self/key/kernel attention/self/key/bias
attention/self/value/kernel attention/self/value/bias attention/output/dense/kernel attention/output/dense/bias
attention/output/LayerNorm/beta attention/output/LayerNorm/gamma intermediate/dense/kernel intermediate/dense/bias
output/dense/kernel output/dense/bias output/LayerNorm/beta output/LayerNorm/gamma
""".split()


def test_a_checkpoint_of_the_original_release_has_every_variable_by_its_name(tmp_path, golden, golden_model):
    names = RELEASED + [f"bert/encoder/layer_{layer}/{name}" for layer in (0, 1) for name in RELEASED_LAYER]
    source = {variable.name[:-2]: variable.numpy() for variable in golden_model("pretraining").variables}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        # As the release wrote them: reference variables of the names, and a Saver.
        for name in names:
            tf.compat.v1.get_variable(name, initializer=source[name], use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / "bert_model.ckpt"))
    model = bert(sequence_length=16, task="pretraining", activation="gelu_tanh", **SIZES)  # As the release computes.
    report = assign(model, find(path).open())
    assert (report.layout, report.loaded, report.new) == ("original BERT", tuple(sorted(names)), ())
    assert report.remark is None
    outputs = model(inputs_of(model, golden))
    for name in ("masked_lm", "next_sentence"):
        np.testing.assert_allclose(outputs[name], golden[f"gelu_tanh/{name}"], atol=1e-4)
