"""Whether batches fit a model: Keras itself is asked what it takes."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop import TrainLoop
from tpuloop.data.checks import DataError, check_classes, check_fits

ROWS = 7  # Unlike every other dimension here, so that nothing fits by accident.


def spec(*shape, dtype=tf.float32):
    return tf.TensorSpec([None, *shape], dtype)


def zeros(structure):
    return tf.nest.map_structure(lambda leaf: np.zeros([ROWS, *leaf.shape[1:]], leaf.dtype.as_numpy_dtype), structure)


def fits(*arguments, **more):
    try:
        check_fits(*arguments, **more)
    except DataError:
        return False
    return True


def keras_takes(call, *arguments):
    """Whether Keras does; a TypeError is its word for inputs that a layer cannot take."""
    try:
        call(*arguments)
    except (ValueError, TypeError, tf.errors.InvalidArgumentError):
        return False
    return True


# Features.


def functional(shape):
    inputs = tf.keras.Input(shape, name="ids")
    return tf.keras.Model(inputs, tf.keras.layers.Flatten()(inputs))


def two_inputs():
    inputs = [tf.keras.Input([4], name="ids"), tf.keras.Input([2], name="ages")]
    return tf.keras.Model(inputs, tf.keras.layers.Concatenate()(inputs))


def dict_of_inputs():
    inputs = {"left": tf.keras.Input([4], name="a"), "right": tf.keras.Input([2], name="b")}
    return tf.keras.Model(inputs, tf.keras.layers.Concatenate()(list(inputs.values())))


def sequential():
    return tf.keras.Sequential([tf.keras.layers.Flatten(input_shape=(4,))])


FEATURES = [
    (lambda: functional([4]), spec(4)),
    (lambda: functional([4]), spec(4, 1)),
    (lambda: functional([4]), spec(5)),
    (lambda: functional([4, 1]), spec(4)),
    (lambda: functional([1]), spec()),
    (lambda: functional([4]), {"ids": spec(4)}),
    (lambda: functional([4]), {"ids": spec(4), "more": spec(9)}),
    (lambda: functional([4]), {"other": spec(4)}),
    (lambda: functional([4]), {"ids": spec(5)}),
    (two_inputs, (spec(4), spec(2))),
    (two_inputs, (spec(4), spec(3))),
    (two_inputs, (spec(4), spec(2), spec(2))),
    (two_inputs, spec(4)),
    (two_inputs, {"ids": spec(4), "ages": spec(2)}),
    (two_inputs, {"ids": spec(4), "ages": spec(3)}),
    (two_inputs, {"ids": spec(4)}),
    (dict_of_inputs, {"left": spec(4), "right": spec(2)}),
    (dict_of_inputs, {"left": spec(2), "right": spec(4)}),
    (dict_of_inputs, {"a": spec(4), "b": spec(2)}),
    (sequential, spec(4)),
    (sequential, {"flatten_input": spec(4)}),
    (sequential, {"flatten_input": spec(5)}),
    (sequential, {"anything": spec(4)}),
]


@pytest.mark.parametrize("make, x", FEATURES, ids=[str(number) for number in range(len(FEATURES))])
def test_features_fit_where_keras_takes_them(make, x):
    model = make()
    assert fits((x,), model) == keras_takes(model.predict_on_batch, zeros(x))


@pytest.mark.parametrize(
    "make, x, message",
    [
        (lambda: functional([5]), spec(4), "an example of x has the shape (4), and the model 'm' takes (5): build "),
        # Of which Keras only warns.
        (lambda: functional([4]), spec(4, 2), "an example of x has the shape (4, 2), and the model 'm' takes (4)"),
        (
            two_inputs,
            {"ids": spec(4), "ages": spec(3)},
            "the data: an example of x['ages'] has the shape (3), and the model 'm' takes (2): "
            "build the model for that shape, or reshape x['ages']",
        ),
        (two_inputs, (spec(4), spec(3)), "an example of x[1] has the shape (3), and the model 'm' takes (2)"),
        (two_inputs, spec(4), "x is 1 feature, and the model 'm' takes 2 (ids, ages): give one for each input"),
        (two_inputs, {"ids": spec(4)}, "x has the features ids, and the model 'm' takes ids, ages: name the features"),
        (lambda: functional([1]), spec(dtype=tf.string), "x holds strings, and the model 'm' takes float32: turn them"),
    ],
)
def test_features_that_do_not_fit_are_named(make, x, message):
    model = make()
    model._name = "m"
    with pytest.raises(DataError) as error:
        check_fits((x, spec()), model)
    assert message in str(error.value)


# Labels.


def model_to(*shape, loss):
    """A compiled model with outputs of the shape."""
    layers = [tf.keras.layers.Dense(int(np.prod(shape))), tf.keras.layers.Reshape(shape)]
    model = tf.keras.Sequential([tf.keras.Input([2]), *layers], name="m")
    model.compile("sgd", loss)
    return model


SPARSE = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
SHAPES = [
    ((), (1,)),
    ((1,), (1,)),
    ((), (3,)),
    ((1,), (3,)),
    ((1, 1), (3,)),
    ((3,), (3,)),
    ((3,), (1,)),
    ((2,), (3,)),
    ((5,), (5, 3)),
    ((5, 1), (5, 3)),
    ((5, 3), (5, 3)),
    ((4,), (5, 3)),
    ((5,), (5, 1)),
    ((5, 1), (5, 1)),
    ((2, 3), (2, 3, 4)),
    ((6,), (2, 3, 4)),
]


@pytest.mark.parametrize("labels, outputs", SHAPES)
@pytest.mark.parametrize("loss", [SPARSE, "categorical_crossentropy", "mse", tf.keras.losses.BinaryCrossentropy()])
def test_labels_fit_where_keras_trains_with_them(labels, outputs, loss):
    model = model_to(*outputs, loss=loss)
    y = spec(*labels, dtype=tf.int64 if loss is SPARSE else tf.float32)
    fit = fits((spec(2), y), model)
    if loss is SPARSE and outputs[-1] == 1:
        assert fit  # What Keras makes of a single class is not repeated here.
    else:
        assert fit == keras_takes(model.train_on_batch, zeros(spec(2)), zeros(y))


@pytest.mark.parametrize(
    "labels, outputs",
    [
        ((), (5, 1)),  # Keras would compare each label with the outputs of every row of the batch,
        ((2,), (2, 1, 1)),  # and here as well.
    ],
)
def test_labels_that_would_be_broadcast_over_the_batch_are_refused(labels, outputs):
    assert not fits((spec(2), spec(*labels)), model_to(*outputs, loss="mse"))


@pytest.mark.parametrize(
    "labels, outputs, loss, message",
    [
        (
            (3,),
            (10,),
            SPARSE,
            "the data: an example of y has the shape (3), and the loss sparse_categorical_crossentropy takes class "
            "numbers of the shape (), since the model 'm' gives (10): give one class number for each",
        ),
        ((10,), (10,), SPARSE, "use categorical_crossentropy for one-hot labels, or tf.argmax(y, axis=-1)"),
        ((), (10,), "categorical_crossentropy", "use sparse_categorical_crossentropy for class numbers, or tf.one_hot"),
        (
            (2,),
            (3,),
            tf.keras.losses.Huber(),
            "an example of y has the shape (2), and the loss huber takes the shape (3), since the model 'm' gives (3): "
            "make the model's last layer as wide as y, or reshape y",
        ),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, outputs, loss, message):
    with pytest.raises(DataError) as error:
        check_fits((spec(2), spec(*labels)), model_to(*outputs, loss=loss))
    assert message in str(error.value)


class OwnLoss(tf.keras.losses.MeanSquaredError):
    """May take labels of any shape."""


@pytest.mark.parametrize(
    "y, loss",
    [
        (spec(2), OwnLoss()),
        (spec(2), lambda labels, outputs: tf.reduce_sum(outputs, axis=-1)),
        (spec(2), None),
        (spec(2), "no_such_loss"),
        (spec(None), "mse"),
        (tf.TensorSpec(None), "mse"),
        (tf.RaggedTensorSpec([None, None]), "mse"),
        (None, "mse"),
        ({"other": spec(2)}, "mse"),
    ],
)
def test_labels_of_which_nothing_is_known_fit(y, loss):
    check_fits((spec(2), y), model_to(3, loss=loss))


def test_labels_by_name_or_in_a_list():
    model = model_to(3, loss="mse")
    for y in ({model.output_names[0]: spec(2)}, (spec(2),)):
        assert not fits((spec(2), y), model)


def test_a_model_that_is_not_compiled_or_has_no_shapes_yet_takes_anything():
    plain = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(3)])
    check_fits((spec(2), spec(7)), plain)
    unbuilt = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    unbuilt.compile("sgd", "mse")
    check_fits((spec(9), spec(7)), unbuilt)
    check_fits(None, plain)


def test_each_class_has_an_output():
    check_classes(3, model_to(3, loss=SPARSE))
    check_classes(3, model_to(5, loss=SPARSE))
    check_classes(3, model_to(2, loss="mse"))
    check_classes(3, tf.keras.Sequential([tf.keras.layers.Dense(2)]))
    with pytest.raises(
        DataError, match="the data has 3 classes, and the model 'm' has 2 outputs: give it one for each"
    ):
        check_classes(3, model_to(2, loss=SPARSE))


def test_labels_that_nothing_is_done_with_may_be_anything():
    model = model_to(3, loss="mse")
    check_fits((spec(2), spec(2)), model, labels=False)
    with pytest.raises(DataError, match="an example of x has the shape"):
        check_fits((spec(5), spec(2)), model, labels=False)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_no_output_is_for(label):
    loop = TrainLoop(model_to(3, loss=SPARSE))
    x, y = np.zeros([4, 2], np.float32), np.array([0, 1, label, 2])
    message = f"the data has the label {label}, and the model has outputs for 3 classes, 0 to 2: number the classes"
    with pytest.raises(DataError, match=message):
        loop.fit(x, y, batch_size=4, steps=1)
    with pytest.raises(DataError, match=message):
        loop.evaluate(x, y, batch_size=4)
