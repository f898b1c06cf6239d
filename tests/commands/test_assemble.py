"""What a recipe's names give, and whether data and model fit."""

import numpy as np
import pytest
import tensorflow as tf

import tpuloop
from tpuloop.commands import assemble
from tpuloop.commands.optimizer import describe_learning_rate, make_optimizer
from tpuloop.commands.recipe import Recipe, make_recipe
from tpuloop.data.sets.registry import DATA_SETS, DataSets
from tpuloop.errors import UsageError
from tpuloop.optimizers import OPTIMIZERS

X, Y = np.zeros([6, 4], np.float32), np.zeros([6], np.int64)


def model_of(*shapes, dtype="float32"):
    """A model with an input of each shape, named in_0, in_1 ..."""
    inputs = [tf.keras.Input(shape, name=f"in_{index}", dtype=dtype) for index, shape in enumerate(shapes)]
    return tf.keras.Model(inputs if len(inputs) > 1 else inputs[0], inputs[0])


@pytest.mark.parametrize(
    "data, shape",
    [
        ((X, Y), [4]),
        ((X, Y, Y), [4]),
        (X, [4]),
        (tf.data.Dataset.from_tensor_slices((X, Y)).batch(2), [4]),
        # Keras adds or takes away a last dimension of 1.
        ((np.zeros([6]), Y), [1]),
        ((np.zeros([6, 4, 1]), Y), [4]),
        ((np.zeros([6, 4]), Y), [4, 1]),
        # What is not known fits.
        ((X, Y), [None]),
        (tf.data.Dataset.from_generator(list, output_types=tf.float32), [4]),
        ({"in_0": X, "more": Y}, [4]),
        (None, [4]),
        (lambda: 3, [4]),
        # What only a loop of one's own can make sense of is left to it.
        ((X, Y, Y, Y), [9]),
    ],
)
def test_data_that_fits(data, shape):
    assemble.check_fits(data, assemble.Network(model_of(shape)), what="the data")


@pytest.mark.parametrize(
    "data, model, message",
    [
        ((X, Y), model_of([5]), "the data: an example of x has the shape (4), and the model 'model' takes (5)"),
        ((X, Y), model_of([4, 2]), "has the shape (4), and the model 'model' takes (4, 2)"),
        (
            (np.zeros([6, 4, 2]), Y),
            model_of([4, None, 3]),
            "has the shape (4, 2), and the model 'model' takes (4, any, 3)",
        ),
        ((np.array(["a", "b"]), Y[:2]), model_of([1]), "x holds strings, and the model 'model' takes float32"),
        (({"ids": X}, Y), model_of([4], [4]), "x has the features ids, and the model 'model' takes in_0, in_1"),
    ],
)
def test_data_that_does_not(data, model, message):
    model._name = "model"
    with pytest.raises(UsageError) as error:
        assemble.check_fits(data, assemble.Network(model), what="the data")
    assert message in str(error.value)


def test_a_model_whose_shapes_are_not_known_takes_anything():
    network = assemble.Network(tf.keras.Sequential([tf.keras.layers.Dense(1)]))
    assemble.check_fits((X, Y), network, what="the data")


def test_data_sets_or_a_pair_or_functions_of_them():
    given = DataSets(train=lambda: X, evaluation=lambda: Y)
    assert assemble.as_data_sets(given, what="data()") == DataSets(train=X, evaluation=Y)
    source = tpuloop.ArraySource(X)
    pair = assemble.as_data_sets((source, None), what="data()")
    assert pair.train is source and pair.evaluation is None
    for wrong in (X, (X,), (X, Y, Y), [X, Y], None):
        with pytest.raises(UsageError, match=r"data\(\) must return a tpuloop.DataSets or a pair"):
            assemble.as_data_sets(wrong, what="data()")


_NEED_FILES = {"bert", "csv", "imagenet", "images", "jsonl", "npz", "records"}


@pytest.mark.parametrize("name", sorted(set(DATA_SETS) - _NEED_FILES))
def test_each_data_set_fits_each_model_of_its_task(name, runtimes):
    data = assemble.load_data(make_recipe({"data": {"name": name}}))
    model = {"name": "bert_tiny", "layers": 1} if "sequence_length" in data.model_arguments else {"name": "mlp"}
    network = assemble.build_model(make_recipe({"model": model}), data, runtimes(1))
    assemble.check_fits(data.train, network, what="the training data")
    assemble.check_fits(data.evaluation, network, what="the evaluation data")
    assert data.description


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_each_optimizer_is_made_with_its_learning_rate(name):
    optimizer = make_optimizer({"name": name, "learning_rate": 0.25})
    assert float(optimizer.learning_rate) == 0.25
    with pytest.raises(UsageError, match=f"optimizer '{name}' takes no argument 'momentun'"):
        make_optimizer({"name": name, "momentun": 0.9})


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"name": "adam", "beta_1": "0.9"}, "optimizer 'adam': beta_1 must be a number; it is '0.9'"),
        ({"name": "adam", "epsilon": True}, "optimizer 'adam': epsilon must be a number; it is True"),
        ({"name": "adam", "beta_2": float("nan")}, "optimizer 'adam': beta_2 must be a number; it is nan"),
        ({"name": "adam", "amsgrad": 1}, "optimizer 'adam': amsgrad must be True or False; it is 1"),
        ({"name": "adam", "name_": "x"}, "optimizer 'adam' takes no argument 'name_'; did you mean 'name'"),
        ({"name": "adamw", "weight_decay": [0.1]}, r"'adamw': weight_decay must be a number; it is \[0.1\]"),
        ({"name": "adamw", "weight_decay": -1}, "optimizer 'adamw': weight_decay must be at least 0; it is -1"),
        ({"name": "adam", "beta_1": 5.0}, "optimizer 'adam': beta_1 must be at least 0 and below 1; it is 5.0"),
        ({"name": "sgd", "momentum": -0.5}, "optimizer 'sgd': momentum must be at least 0 and below 1; it is -0.5"),
        ({"name": "adam", "epsilon": -1.0}, "optimizer 'adam': epsilon must be at least 0; it is -1.0"),
        ({"name": "rmsprop", "centered": None}, "optimizer 'rmsprop': centered must be True or False; it is None"),
        ({"name": "sgd", "nesterov": "yes"}, "optimizer 'sgd': nesterov must be True or False; it is 'yes'"),
    ],
)
def test_a_value_that_is_none_for_the_optimizer_is_named(fields, message):
    with pytest.raises(UsageError, match=message):
        make_optimizer(fields)


def rates(recipe, data, runtime, steps):
    optimizer = assemble.build_model(recipe, data, runtime).model.optimizer
    return [float(optimizer.learning_rate(step)) for step in steps]


def test_the_learning_rate_is_scaled_to_the_batch_and_decays_to_the_end_of_the_run(runtimes):
    schedule = {"name": "linear", "warmup_steps": 2}
    recipe = make_recipe(
        {
            "steps": 6,
            "global_batch": 64,
            "optimizer": {"learning_rate": 1.0, "rate_per_batch": 16, "schedule": schedule},
        }
    )
    arguments = {"input_shape": (4,), "num_classes": 3}
    data = DataSets(train=(X, Y), evaluation=None, model_arguments=arguments)
    assert rates(recipe, data, runtimes(1), range(7)) == [0.0, 2.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(3, drop_remainder=True)
    data = DataSets(train=batches, evaluation=None, model_arguments=arguments)
    assert rates(recipe, data, runtimes(1), [2]) == [3 / 16]
    assert describe_learning_rate(recipe, global_batch=64) == (
        "4, which is 1 for 16 examples scaled to 64, after a warm-up of 2 steps, then linear"
    )
    differing = DataSets(train=batches.unbatch().batch(4), evaluation=None, model_arguments=arguments)
    with pytest.raises(UsageError, match="rate_per_batch=16 needs batches of one size"):
        assemble.build_model(recipe, differing, runtimes(1))


def test_what_is_said_of_the_learning_rate():
    def said(schedule):
        return describe_learning_rate(make_recipe({"steps": 9, "optimizer": {"schedule": schedule}}), global_batch=4)

    assert said(None) == ""
    assert said({"name": "cosine"}) == "0.001, then cosine"
    assert said({"name": "constant", "warmup_steps": 9}) == "0.001, after a warm-up of 9 steps, in which the run ends"


def test_an_integer_is_a_number_for_an_optimizer():
    assert make_optimizer({"name": "sgd", "momentum": 0, "nesterov": False}).get_config()["momentum"] == 0


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("argument", ["clipnorm", "global_clipnorm", "clipvalue", "use_ema", "decay"])
def test_what_keras_would_do_to_each_replica_by_itself_is_out_of_reach(name, argument):
    with pytest.raises(UsageError, match=f"optimizer '{name}' takes no argument '{argument}'"):
        make_optimizer({"name": name, argument: 0.5})


def test_an_optimizer_that_would_have_no_effect_is_refused(runtimes):
    def compiled(recipe):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
        model.compile("sgd", "mse")
        return model

    with runtimes(1).scope():
        assert assemble.own_model(compiled, Recipe(), optimizer_asked=False).optimizer is not None
        with pytest.raises(UsageError, match="would have no effect: the model comes compiled with its own"):
            assemble.own_model(compiled, Recipe(), optimizer_asked=True)


def test_the_seed_and_the_precision_are_set_before_a_model_is_built(runtimes):
    recipe = make_recipe({"mixed_precision": "bfloat16", "seed": 5})
    data = assemble.load_data(recipe)

    def build():
        assemble.prepare(recipe)
        return assemble.build_model(recipe, data, runtimes(1)).model

    first, second = build(), build()
    assert first.get_layer("hidden_0").compute_dtype == "bfloat16"
    for one, other in zip(first.get_weights(), second.get_weights()):
        np.testing.assert_array_equal(one, other)
