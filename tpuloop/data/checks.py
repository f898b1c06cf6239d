"""What is wrong with data, said before anything is compiled."""

from typing import Any, Iterator, List, Optional, Tuple

import tensorflow as tf

from tpuloop.errors import UsageError

_Dimensions = List[Optional[int]]

_losses = tf.keras.losses
_CLASS_NUMBERS = (_losses.sparse_categorical_crossentropy,)
_ONE_HOT = (_losses.categorical_crossentropy, _losses.categorical_hinge)
_ELEMENTWISE = (
    _losses.binary_crossentropy,
    _losses.binary_focal_crossentropy,
    _losses.cosine_similarity,
    _losses.hinge,
    _losses.huber,
    _losses.kl_divergence,
    _losses.log_cosh,
    _losses.mean_absolute_error,
    _losses.mean_absolute_percentage_error,
    _losses.mean_squared_error,
    _losses.mean_squared_logarithmic_error,
    _losses.poisson,
    _losses.squared_hinge,
)


class DataError(UsageError):
    """Data that cannot be used as it is; the message names the feature, the number and the remedy."""


def check_batches(spec: Any, *, static_shapes: bool, strings: bool) -> Optional[int]:
    """Checks the element spec of a dataset of global batches.

    Args:
      spec: nested specs of one batch.
      static_shapes: every dimension must be known, as a TPU needs it.
      strings: whether string features may reach the model.

    Returns:
      The global batch size, or None where it is known only when a batch comes.

    Raises:
      DataError: naming the first feature that cannot be used.
    """
    leaves = named_specs(spec)
    if not leaves:
        raise DataError("the data has no features: its elements are empty")
    sizes = set()
    for name, leaf in leaves:
        if not isinstance(leaf, tf.TensorSpec):
            raise DataError(
                f"feature {name} is a {type(leaf).__name__}: only dense tensors can be split over replicas; "
                "map it with .to_tensor() or tf.sparse.to_dense"
            )
        if leaf.dtype == tf.string and not strings:
            raise DataError(
                f"feature {name} is a string, which the model does not take and accelerators cannot hold: "
                "turn it into numbers in the dataset (.map) or leave it out"
            )
        if leaf.shape.rank is None:
            raise DataError(f"feature {name} has an unknown rank: give it a shape in the dataset (tf.ensure_shape)")
        if leaf.shape.rank == 0:
            raise DataError(f"feature {name} has no batch dimension: call .batch(global_batch_size) on the dataset")
        if static_shapes and not leaf.shape.is_fully_defined():
            raise DataError(
                f"feature {name} has the shape {leaf.shape}, and a TPU needs every dimension: "
                "use .batch(n, drop_remainder=True), and pad what varies"
            )
        sizes.add(leaf.shape[0])
    if len(sizes - {None}) > 1:
        named = ", ".join(f"{name} {leaf.shape[0]}" for name, leaf in leaves)
        raise DataError(f"the features of a batch have different first dimensions: {named}")
    return next(iter(sizes - {None}), None)


def check_divides(batch_size: int, replicas: int) -> None:
    """Checks that a global batch gives every replica the same number of examples."""
    if batch_size < 1:
        raise DataError(f"the global batch is {batch_size}: it must be at least 1")
    if batch_size % replicas:
        lower = batch_size // replicas * replicas
        choices = f"{lower} or {lower + replicas}" if lower else str(replicas)
        raise DataError(f"the global batch of {batch_size} does not divide into {replicas} replicas: use {choices}")


def named_specs(spec: Any, prefix: str = "element") -> List[Tuple[str, tf.TypeSpec]]:
    """The leaves of an element spec with their names, such as `element[0]['ids']`."""
    if isinstance(spec, dict):
        return [pair for key in sorted(spec) for pair in named_specs(spec[key], f"{prefix}[{key!r}]")]
    if isinstance(spec, (tuple, list)):
        return [pair for i, item in enumerate(spec) for pair in named_specs(item, f"{prefix}[{i}]")]
    return [] if spec is None else [(prefix, spec)]


def check_fits(spec: Any, model: tf.keras.Model, *, what: str = "the data", labels: bool = True) -> None:
    """Compares batches `(x, y, sample_weight)` with a model that takes them as they are, as in Keras's own steps.

    Features are compared with the model's inputs. Where the model has one output and a loss of Keras's, so are labels
    with that output. What cannot be known fits, and so does what Keras squeezes, expands or broadcasts. What does not
    is what Keras would refuse, warn of as incompatible, or broadcast over the rows of the batch.

    Args:
      spec: the element spec of a dataset of batches, or None where it is not known.
      model: compiled or not, built or not.
      what: the data's name in the message.
      labels: whether labels are looked at, which predictions have no use for.

    Raises:
      DataError: naming the feature, its shape, the shape that the model takes, and the remedy.
    """
    if spec is None or (isinstance(spec, (tuple, list)) and len(spec) > 3):
        return  # What only a loop of one's own can make sense of is left to it.
    x, y, _ = tf.keras.utils.unpack_x_y_sample_weight(spec)
    for name, feature, taken in _features_and_inputs(x, model, what):
        _check_feature(name, feature, taken, model, what)
    if labels:
        _check_labels(y, model, what)


def check_classes(classes: int, model: tf.keras.Model, *, what: str = "the data") -> None:
    """Compares the number of classes with the outputs of a model whose loss takes class numbers.

    Raises:
      DataError: where some class has no output.
    """
    outputs = getattr(model, "outputs", None)
    if _stock_loss(model) not in _CLASS_NUMBERS or not outputs or len(outputs) != 1:
        return
    shape = outputs[0].shape
    if shape.rank and shape[-1] is not None and shape[-1] < classes:
        raise DataError(
            f"{what} has {classes} classes, and the model {model.name!r} has {shape[-1]} outputs: give it one for each"
        )


def _features_and_inputs(x: Any, model: tf.keras.Model, what: str) -> Iterator[Tuple[str, tf.TensorSpec, Any]]:
    """Each feature with the input that Keras gives it to, and its name."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        return
    nested = getattr(model, "_nested_inputs", None)
    names = sorted(nested) if isinstance(nested, dict) else list(model.input_names)
    if len(names) != len(inputs):
        return  # Inputs nested more deeply, which have no plain names.
    if isinstance(x, dict):
        if not set(names) <= set(x):
            raise DataError(
                f"{what}: x has the features {', '.join(sorted(x))}, and the model {model.name!r} takes "
                f"{', '.join(names)}: name the features as the model's inputs"
            )
        pairs = [(f"x[{name!r}]", x[name]) for name in names]
    elif isinstance(x, (tuple, list)):
        pairs = [(f"x[{index}]", feature) for index, feature in enumerate(x)]
    else:
        pairs = [("x", x)]
    if len(pairs) != len(inputs):
        count = "1 feature" if len(pairs) == 1 else f"{len(pairs)} features"
        raise DataError(
            f"{what}: x is {count}, and the model {model.name!r} takes {len(inputs)} ({', '.join(names)}): "
            "give one for each input"
        )
    for (name, feature), taken in zip(pairs, inputs):
        if isinstance(feature, tf.TensorSpec):
            yield name, feature, taken


def _check_feature(name: str, feature: tf.TensorSpec, taken: Any, model: tf.keras.Model, what: str) -> None:
    if feature.dtype == tf.string and taken.dtype != tf.string:
        raise DataError(
            f"{what}: {name} holds strings, and the model {model.name!r} takes {taken.dtype.name}: "
            "turn them into numbers"
        )
    if taken.dtype.is_integer and feature.dtype.is_floating:
        raise DataError(
            f"{what}: {name} holds {feature.dtype.name}, and the model {model.name!r} takes {taken.dtype.name}: "
            "round them in the data"
        )
    if not feature.shape.rank or not taken.shape.rank:
        return
    found, expected = feature.shape.as_list()[1:], taken.shape.as_list()[1:]
    # Keras itself adds or takes away a last dimension of 1.
    if not any(_same(*pair) for pair in ((found, expected), ([*found, 1], expected), (found, [*expected, 1]))):
        raise DataError(
            f"{what}: an example of {name} has the shape {_shape(found)}, and the model {model.name!r} takes "
            f"{_shape(expected)}: build the model for that shape, or reshape {name}"
        )


def _check_labels(y: Any, model: tf.keras.Model, what: str) -> None:
    outputs = getattr(model, "outputs", None)
    loss = _stock_loss(model)
    if loss is None or not outputs or len(outputs) != 1:
        return
    if isinstance(y, dict):
        y = y.get(model.output_names[0])
    elif isinstance(y, (tuple, list)) and len(y) == 1:
        y = y[0]
    if not isinstance(y, tf.TensorSpec) or not y.shape.rank or not outputs[0].shape.rank:
        return
    found, given = y.shape.as_list()[1:], outputs[0].shape.as_list()[1:]
    if loss in _CLASS_NUMBERS:
        # Keras flattens both, so that only the numbers of values must agree. An output of one class it squeezes.
        classes, rows = given[-1:], given[:-1]
        if classes in ([], [1]) or _count(found) in (None, _count(rows)) or _count(rows) is None:
            return
        takes = f"class numbers of the shape {_shape(rows)}"
        remedy = "give one class number for each"
        if _same(found, given):
            remedy = "use categorical_crossentropy for one-hot labels, or tf.argmax(y, axis=-1)"
    else:
        if _fits_elementwise(found, given, broadcast=loss in _ELEMENTWISE):
            return
        takes = f"the shape {_shape(given)}"
        remedy = "make the model's last layer as wide as y, or reshape y"
        if loss in _ONE_HOT and _count(found) == _count(given[:-1]):
            remedy = "use sparse_categorical_crossentropy for class numbers, or tf.one_hot"
    raise DataError(
        f"{what}: an example of y has the shape {_shape(found)}, and the loss {loss.__name__} takes {takes}, since the "
        f"model {model.name!r} gives {_shape(given)}: {remedy}"
    )


def _stock_loss(model: tf.keras.Model) -> Any:
    """The function of the one loss that the model was compiled with, where it is among those known here."""
    container = getattr(model, "compiled_loss", None)
    losses = [] if container is None else tf.nest.flatten(container._user_losses)
    if len(losses) != 1 or losses[0] is None:
        return None
    try:
        loss = tf.keras.losses.get(losses[0])
    except ValueError:
        return None
    if getattr(loss, "class_numbers", False):
        return tf.keras.losses.sparse_categorical_crossentropy
    if isinstance(loss, tf.keras.losses.Loss):
        # A subclass may do anything with its labels.
        loss = getattr(loss, "fn", None) if type(loss).__module__ == tf.keras.losses.Loss.__module__ else None
    return loss if loss in (*_CLASS_NUMBERS, *_ONE_HOT, *_ELEMENTWISE) else None


def _fits_elementwise(found: _Dimensions, given: _Dimensions, *, broadcast: bool) -> bool:
    """Whether Keras compares labels with outputs value by value, by the rules of its containers and losses."""
    if not found and len(given) == 1:
        found = [1]
    if len(given) == len(found) + 1 and given[-1] in (1, None):
        given = given[:-1]
    elif len(found) == len(given) + 1 and found[-1] in (1, None):
        found = found[:-1]
    if not broadcast:
        return _same(found, given)
    return len(found) == len(given) and all(f == g or {f, g} & {1, None} for f, g in zip(found, given))


def _count(dimensions: _Dimensions) -> Optional[int]:
    """How many values there are, if every dimension is known."""
    count = 1
    for size in dimensions:
        if size is None:
            return None
        count *= size
    return count


def _same(found: _Dimensions, expected: _Dimensions) -> bool:
    known = [(f, e) for f, e in zip(found, expected) if f is not None and e is not None]
    return len(found) == len(expected) and all(f == e for f, e in known)


def _shape(dimensions: _Dimensions) -> str:
    return f"({', '.join('any' if size is None else str(size) for size in dimensions)})"
