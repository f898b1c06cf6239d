"""Matches the weights of a file with the variables of a model, and assigns them."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .layout import Layout, Source
from .recognise import recognise
from .report import Report, is_of_head
from .values import Values

HEAD = "logits"

_SHOWN = 10
_REMEDY = "build the model with the sizes of the file, or use a file of this model"
# Where there is more to say: how many dimensions come before those that are alike, and what to do.
_REMEDIES = {
    "bert/embeddings/word_embeddings": (1, "use the vocabulary that the weights were trained with"),
    "bert/embeddings/position_embeddings": (1, "build the model with max_positions={0}, whatever its sequence length"),
    "stem_conv/kernel": (2, "build the model with the stem that the weights were trained with"),
}


def assign(model: Any, values: Values, *, layout: Optional[Layout] = None) -> Report:
    """Gives a model's variables the values of a file. Does it wholly or, where it raises, not at all.

    A head of another number of classes than the file's stays as initialised: fine-tuning brings a task of its own. Any
    other difference in size is an error; so is a position table longer than the model's, as the model can have all of
    it whatever the length of its sequences.

    Args:
      model: a built Keras model, on one replica or several; its variables' names are what is matched.
      layout: of the file; None to tell it by its names.

    Raises:
      ValueError: where the model is not built, the layout is unknown or of another variant, nothing of the file is in
        the model, a size is wrong, what the model ties differs in the file, or the file is damaged.
    """
    if not model.built:
        raise ValueError("the model is not built, so that it has no variables yet: call it, or build() it, first")
    variables = _by_name(model)
    if layout is None:
        layout = recognise(values.shapes, variables=variables)
    sources = layout.sources(values.shapes, model)
    matched = {name: sources[name] for name in variables if name in sources}
    shapes = {name: _shape(values, source) for name, source in matched.items()}
    head_classes = _other_classes(shapes, variables)
    if head_classes is not None:
        matched = {name: source for name, source in matched.items() if not name.startswith(f"{HEAD}/")}
    if not matched:
        raise ValueError(
            f"nothing in it ({layout.title}) belongs to the model {model.name}, whose variables are "
            f"{_listed(sorted(variables))}: use the model that the weights were trained with"
        )
    _check_sizes({name: shapes[name] for name in matched}, variables)
    arrays = {
        name: _value(values, source).astype(variables[name].dtype.as_numpy_dtype) for name, source in matched.items()
    }
    for name, array in arrays.items():
        variables[name].assign(array)
    used = {name for source in matched.values() for name in source.names}
    unused = tuple(sorted(name for name in values.shapes if name not in used and not layout.ignores(name)))
    of_heads = {name for ours, source in sources.items() if is_of_head(ours) for name in source.names}
    return Report(
        layout=layout.title,
        loaded=tuple(sorted(matched)),
        new=tuple(sorted(set(variables) - set(matched))),
        unused=unused,
        foreign=tuple(name for name in unused if name not in of_heads),
        head_classes=head_classes,
        remark=layout.remark(model),
    )


def _by_name(model: Any) -> Dict[str, Any]:
    variables: Dict[str, Any] = {}
    for variable in model.variables:
        if not variable.dtype.is_floating:
            continue  # The state of a random layer is no weight.
        name = variable.name.split(":")[0]
        if name in variables:
            raise ValueError(f"the model has two variables called {name}: give its layers names that differ")
        variables[name] = variable
    return variables


def _value(values: Values, source: Source) -> np.ndarray:
    for copy, name in source.tied:
        if not np.array_equal(values.read(copy), values.read(name)):
            raise ValueError(
                f"{copy} differs from {name}, and the model ties them, to one variable: use weights that are tied"
            )
    return source.convert(*(_weights(values, name) for name in source.names))


def _weights(values: Values, name: str) -> np.ndarray:
    array = values.read(name)
    if array.dtype != np.float32:
        raise ValueError(f"{name} holds {array.dtype.name}, which are no weights: use a file of floating numbers")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} holds numbers that are not finite in float32: its training diverged, or it is damaged"
        )
    return array


def _shape(values: Values, source: Source) -> Tuple[int, ...]:
    """The shape that `source` converts to, found out on arrays of one element that only seem to be that large."""
    blanks = [np.broadcast_to(np.float32(0), values.shapes[name]) for name in source.names]
    try:
        return tuple(source.convert(*blanks).shape)
    except ValueError as error:  # Of another rank, or two that do not go together.
        shapes = ", ".join(f"{name} {values.shapes[name]}" for name in source.names)
        raise ValueError(f"it holds {shapes}, which is no such weight: download it again") from error


def _other_classes(shapes: Dict[str, Tuple[int, ...]], variables: Dict[str, Any]) -> Optional[int]:
    """The classes of the file's head where the model's has another number and is alike in everything else."""
    head = {name: shape for name, shape in shapes.items() if name.startswith(f"{HEAD}/") and shape}
    classes = {shape[-1] for shape in head.values()}
    alike = all(shape[:-1] == tuple(variables[name].shape)[:-1] for name, shape in head.items())
    if len(classes) != 1 or not alike or all(shape == tuple(variables[name].shape) for name, shape in head.items()):
        return None
    return classes.pop()


def _check_sizes(shapes: Dict[str, Tuple[int, ...]], variables: Dict[str, Any]) -> None:
    wrong: List[str] = [name for name in sorted(shapes) if shapes[name] != tuple(variables[name].shape)]
    if not wrong:
        return
    name = wrong[0]
    there, here = shapes[name], tuple(variables[name].shape)
    first, special = _REMEDIES.get(name, (0, _REMEDY))
    remedy = special.format(*there) if there[first:] == here[first:] else _REMEDY
    more = f" (and so for {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    raise ValueError(f"{name} has shape {there} in the file and {here} in the model{more}: {remedy}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
