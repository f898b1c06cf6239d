"""The numbers of Hugging Face's BERT, which `golden/make_bert.py` made: outputs to 1e-4, gradients to 1e-3."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.bert import bert

GOLDEN = pathlib.Path(__file__).parent / "golden"
SIZES = {"vocab_size": 100, "layers": 2, "width": 32, "heads": 4, "feed_forward": 64, "max_positions": 24}


def safetensors(path):
    """Eight bytes of the header's length, the header in JSON, then the data."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32"
            first, last = entry["data_offsets"]
            tensors[name] = np.frombuffer(content[start + first : start + last], np.float32).reshape(entry["shape"])
    return tensors


def their_name(variable):
    """Hugging Face's name of one of our variables, and whether it is transposed there."""
    name = variable.name[: -len(":0")]
    if name == "cls/predictions/output_bias":
        return "cls.predictions.bias", False
    name = name.replace("/layer_", "/layer/").replace("seq_relationship/output_", "seq_relationship/")
    name = name.replace("seq_relationship/weights", "seq_relationship/weight")
    if name.endswith("_embeddings"):
        return name.replace("/", ".") + ".weight", False
    turned = name.endswith("/kernel")
    for ours, theirs in (("gamma", "weight"), ("beta", "bias"), ("kernel", "weight")):
        if name.endswith(f"/{ours}"):
            name = name[: -len(ours)] + theirs
    return name.replace("/", "."), turned


def golden_model(task, head=None, **arguments):
    """A model with the golden weights; `head`, if any, names its weights in heads.npz."""
    model = bert(sequence_length=16, task=task, **{**SIZES, **arguments})
    theirs = dict(safetensors(GOLDEN / "model.safetensors"))
    if head:
        weights = np.load(GOLDEN / "heads.npz")
        theirs.update({f"logits.{part}": weights[f"{head}.{part}"] for part in ("weight", "bias")})
    for variable in model.variables:
        name, turned = their_name(variable)
        variable.assign(theirs[name].T if turned else theirs[name])
    return model


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(GOLDEN / "golden.npz"))


def inputs_of(model, golden):
    return {name: golden[name] for name in model.input_names}


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("recompute", [False, True])
def test_pretraining_outputs_and_gradients(golden, activation, recompute):
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
    compared = 0
    for variable, gradient in zip(model.variables, gradients):
        name, turned = their_name(variable)
        if f"gradient:{name}" in expected:
            reference = expected[f"gradient:{name}"]
            np.testing.assert_allclose(
                tf.convert_to_tensor(gradient), reference.T if turned else reference, atol=1e-3, err_msg=name
            )
            # Not by being small; but that a bias of keys is a constant of each softmax, whose gradient is 0.
            assert np.abs(reference).max() > 1e-2 or name.endswith("key.bias"), name
            compared += 1
    assert compared == sum(name.startswith("gradient:") for name in expected) == 14


def test_tagging_outputs(golden):
    model = golden_model("tagging", head="tagging", num_classes=5)
    np.testing.assert_allclose(model(inputs_of(model, golden)), golden["gelu/tagging"], atol=1e-4)


def test_span_outputs(golden):
    model = golden_model("span", head="span")
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


def test_a_checkpoint_of_the_original_release_has_every_variable_by_its_name(tmp_path, golden):
    names = RELEASED + [f"bert/encoder/layer_{layer}/{name}" for layer in (0, 1) for name in RELEASED_LAYER]
    source = {variable.name[:-2]: variable.numpy() for variable in golden_model("pretraining").variables}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        # As the release wrote them: reference variables of the names, and a Saver.
        for name in names:
            tf.compat.v1.get_variable(name, initializer=source[name], use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / "bert_model.ckpt"))
    reader = tf.train.load_checkpoint(path)
    model = bert(sequence_length=16, task="pretraining", **SIZES)
    assert sorted(variable.name for variable in model.variables) == sorted(f"{name}:0" for name in names)
    for variable in model.variables:
        variable.assign(reader.get_tensor(variable.name[: -len(":0")]))
    outputs = model(inputs_of(model, golden))
    for name in ("masked_lm", "next_sentence"):
        np.testing.assert_allclose(outputs[name], golden[f"gelu/{name}"], atol=1e-4)
