"""The recipes that ship: what they say, that they build, and a few real steps of each at a small size."""

import ast
import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf

from tpuloop import models
from tpuloop.commands import assemble
from tpuloop.commands.config_file import load_config
from tpuloop.commands.recipe import make_recipe
from tpuloop.data.arrays import ArraySource
from tpuloop.data.sets.registry import DATA_SETS, DataSets
from tpuloop.engine.compiled import build_compiled
from tpuloop.engine.nested import layers_within
from tpuloop.engine.optimize import create_weights
from tpuloop.engine.randomness import StepSeed, seed_random_layers, step_seed
from tpuloop.engine.step import as_means
from tpuloop.errors import UsageError
from tpuloop.optimizers import OPTIMIZERS

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "configs")
NAMES = sorted(file[:-3] for file in os.listdir(FOLDER) if file.endswith(".py") and not file.startswith("_"))
VARIANTS = {
    "resnet50_imagenet": ["sgd", "lars"],
    "bert_base_pretrain": ["adamw-128", "adamw-512", "lamb-128", "lamb-512"],
}
ALL = NAMES + [f"{name}:{variant}" for name, variants in VARIANTS.items() for variant in variants]


def small_run(name, runtime, tmp_path, **fields):
    """Two real steps of a recipe, with some fields changed."""
    short = {"steps": 2, "global_batch": 2, "eval_every": None, "save_every": None}
    schedule = {"optimizer": {"schedule": {**load_config(name)["optimizer"]["schedule"], "warmup_steps": 1}}}
    recipe = make_recipe(load_config(name), short, schedule, fields)
    assemble.prepare(recipe)
    data = assemble.load_data(recipe)
    network = assemble.build_model(recipe, data, runtime)
    assemble.check_fits(data.train, network, what="the training data")
    loop = assemble.make_loop(recipe, network, runtime, workdir=str(tmp_path / "run"))
    before = [weight.numpy() for weight in network.model.trainable_weights]
    history = loop.fit(data.train, steps=2, batch_size=2).history
    assert np.isfinite(history["loss"]).all()
    changed = [np.any(old != new.numpy()) for old, new in zip(before, network.model.trainable_weights)]
    return network.model, history, changed


def test_there_is_a_recipe_for_each_purpose():
    assert NAMES == [
        "bert_base_finetune",
        "bert_base_pretrain",
        "bert_tiny_docstrings",
        "bert_tiny_pydoc",
        "mlp_digits",
        "resnet18_digits",
        "resnet50_imagenet",
    ]


@pytest.mark.parametrize("name", ALL)
def test_a_recipe_names_what_there_is(name):
    recipe = make_recipe(load_config(name))
    assert recipe.model["name"] in models.REGISTRY
    assert recipe.data["name"] in DATA_SETS
    assert recipe.optimizer["name"] in OPTIMIZERS
    json.dumps(recipe.to_json())


@pytest.mark.parametrize("name", NAMES)
def test_its_first_lines_say_what_it_is_for_and_what_it_reaches(name):
    with open(os.path.join(FOLDER, f"{name}.py")) as file:
        first, *lines = ast.get_docstring(ast.parse(file.read())).split("\n\n")
    assert re.search(r"for (any machine|an? .*TPU|one .*TPU)", first)
    assert re.search(r"(accuracy|loss) .*0\.\d", " ".join([first, *lines]).replace("\n", " "))


@pytest.mark.parametrize(
    "name, variant",
    [("resnet50_imagenet", "adam"), ("resnet50_imagenet", "lars-0"), ("bert_base_pretrain", "lamb-256")],
)
def test_a_variant_that_is_none_is_named(name, variant):
    with pytest.raises(UsageError, match=f"not '{variant}'"):
        load_config(f"{name}:{variant}")


@pytest.mark.parametrize(
    "variant, batch, peak",
    [("", 1024, 0.4), (":sgd-256", 256, 0.1), (":lars", 1024, 2.25), (":lars-8192", 8192, 18)],
)
def test_the_imagenet_recipe_is_90_epochs_at_the_rate_of_its_batch(variant, batch, peak):
    recipe = make_recipe(load_config(f"resnet50_imagenet{variant}"))
    assert recipe.global_batch == batch
    assert recipe.steps == round(90 * 1_281_167 / batch)
    assert recipe.schedule.warmup_steps == round(5 * 1_281_167 / batch)
    assert recipe.optimizer["learning_rate"] * batch / recipe.optimizer["rate_per_batch"] == peak


def test_the_two_phases_of_pretraining_add_up():
    for optimizer, steps in (("adamw", 1_000_000), ("lamb", 125_000)):
        assert sum(make_recipe(load_config(f"bert_base_pretrain:{optimizer}-{n}")).steps for n in (128, 512)) == steps


@pytest.fixture
def imagenet(tmp_path):
    """Four noisy pictures in two files of ImageNet's classic layout."""
    folder = tmp_path / "imagenet"
    folder.mkdir()
    for split in ("train", "validation"):
        with tf.io.TFRecordWriter(str(folder / f"{split}-00000-of-00001")) as writer:
            for number in range(4):
                pixels = np.random.default_rng(number).integers(0, 256, [40, 50, 3]).astype(np.uint8)
                features = {
                    "image/encoded": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(pixels).numpy()])
                    ),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number + 1])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return str(folder)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS["resnet50_imagenet"])
def test_resnet50_on_pictures(runtimes, tmp_path, imagenet, variant):
    model, history, changed = small_run(
        f"resnet50_imagenet:{variant}",
        runtimes(1),
        tmp_path,
        data={"path": imagenet, "size": 32, "dtype": "float32", "num_classes": 4},
        mixed_precision="float32",
        eager=True,  # Tracing takes longer than two steps; that it compiles, in bfloat16, is tested below.
    )
    assert model.count_params() > 23_000_000
    # The first step of a warm-up changes nothing, the second what is not behind a last gamma of 0.
    assert changed[-1] and sum(changed) > 10


@pytest.fixture
def wiki(tmp_path):
    """Four examples in the format of BERT's release."""
    path = tmp_path / "wiki.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(4):
            draw = np.random.default_rng(number)
            integers = {
                "input_ids": draw.integers(5, 99, 16),
                "input_mask": np.ones(16, int),
                "segment_ids": np.repeat([0, 1], 8),
                "masked_lm_positions": [1, 5, 0],
                "masked_lm_ids": [7, 8, 0],
                "next_sentence_labels": [number % 2],
            }
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in integers.items()
            }
            weights = tf.train.Feature(float_list=tf.train.FloatList(value=[1, 1, 0]))
            features["masked_lm_weights"] = weights
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return str(path)


SMALL_BERT = {"layers": 2, "width": 32, "heads": 4}


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["adamw-128", "lamb-512"])
def test_bert_pretraining(runtimes, tmp_path, wiki, variant):
    _, history, changed = small_run(
        f"bert_base_pretrain:{variant}",
        runtimes(1),
        tmp_path,
        model=SMALL_BERT,
        data={"path": wiki, "vocab_size": 100},
    )
    assert all(changed)
    assert history["loss"][0] == pytest.approx(history["masked_lm_loss"][0] + history["next_sentence_loss"][0])
    assert history["masked_lm_loss"][0] == pytest.approx(np.log(100), rel=0.05)
    assert history["next_sentence_loss"][0] == pytest.approx(np.log(2), rel=0.2)


@pytest.mark.slow
def test_bert_fine_tuning(runtimes, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]) + "\n")
    lines = [{"text": text, "label": text} for text in ("good", "bad") for _ in range(20)]
    lines = [{**line, "text": line["text"] + " good" * number} for number, line in enumerate(lines)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, history, changed = small_run(
        "bert_base_finetune",
        runtimes(1),
        tmp_path,
        model=SMALL_BERT,
        data={"path": str(tmp_path / "train.jsonl"), "vocab": str(tmp_path / "vocab.txt"), "sequence_length": 16},
    )
    assert history["loss"][0] == pytest.approx(np.log(2), rel=0.2)
    assert all(changed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert_tiny_pydoc", "bert_tiny_docstrings", "resnet18_digits"])
def test_a_recipe_for_laptops(runtimes, tmp_path, name):
    _, history, changed = small_run(name, runtimes(2), tmp_path)
    # The rate of the first step is 0; in the second, what lies behind a last gamma of 0 has no gradient yet.
    assert all(changed) or "resnet" in name and sum(changed) > len(changed) / 4


# 53 convolutions and a dense layer; 12 layers of six dense products and two of attention, and four of the heads. Each
# forward, and in the gradients of both its factors. (That of the picture is there too, which XLA drops later.) And the
# product of one-hot segments with their table, of which only the table has a gradient.
PRODUCTS = {
    "resnet50_imagenet:lars": {" convolution(": 3 * 53, " dot(": 3},
    "bert_base_pretrain:lamb-128": {" convolution(": 0, " dot(": 3 * (12 * 8 + 4) + 2},
}
SHAPES = {
    "resnet50_imagenet:lars": {"input_shape": (224, 224, 3), "num_classes": 1000},
    "bert_base_pretrain:lamb-128": {
        "vocab_size": 30522,
        "sequence_length": 128,
        "max_predictions": 20,
        "task": "pretraining",
    },
}


def batch_for(model, shape):
    if "input_shape" in shape:
        return tf.zeros([8, *shape["input_shape"]], tf.bfloat16), tf.zeros([8], tf.int64)
    places = [8, shape["max_predictions"]]
    features = {name: tf.zeros([8, shape["sequence_length"]], tf.int32) for name in model.input_names}
    labels = {"masked_lm_ids": tf.zeros(places, tf.int32), "masked_lm_weights": tf.ones(places)}
    where = {"masked_lm_positions": tf.zeros(places, tf.int32), "next_sentence_labels": tf.zeros([8], tf.int32)}
    return {**features, **labels, **where}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_a_training_step_of_the_large_ones_is_one_xla_program_at_its_full_size(runtimes, name):
    recipe = make_recipe(load_config(name))
    assemble.prepare(recipe)
    data = DataSets(train=ArraySource(np.zeros([8])), model_arguments=SHAPES[name])
    network = assemble.build_model(recipe, data, runtimes(1))
    loop = assemble.make_loop(recipe, network, runtimes(1), workdir=None)
    create_weights(network.model.optimizer, network.model.trainable_variables)
    seed_random_layers(layers_within(loop))
    batch = batch_for(network.model, SHAPES[name])
    if network.task is None:
        build_compiled(
            network.model, *tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), batch), None
        )

    @tf.function(jit_compile=True)
    def step(batch):
        with step_seed(StepSeed.of(0, tf.constant(3, tf.int64), tf.constant(0))):
            return {name: mean.sums() for name, mean in as_means(loop.train_step(batch)).items() if name != "loss"}

    hlo = step.experimental_get_compiler_ir(batch)(stage="hlo")
    assert {product: hlo.count(product) for product in PRODUCTS[name]} == PRODUCTS[name]
    assert "bf16[8," in hlo and "f64[" not in hlo
