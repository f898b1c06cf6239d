"""The Keras layers inside a module, in an order that is the same in every process."""

from typing import Any, Dict, List, Set

import tensorflow as tf


def layers_within(module: tf.Module) -> List[tf.keras.layers.Layer]:
    """Every layer that `module` holds at any depth, each once; metrics count only where they are not a layer's own.

    Not `Module.submodules`, which fails for a subclassed Keras model that was compiled: it sorts a dict whose keys are
    layers.
    """
    found: Dict[int, tf.keras.layers.Layer] = {}
    _visit(module, found, set())
    return list(found.values())


def _visit(value: Any, found: Dict[int, tf.keras.layers.Layer], seen: Set[int]) -> None:
    if isinstance(value, (list, tuple)):
        for item in value:
            _visit(item, found, seen)
    elif isinstance(value, dict):
        for item in value.values():
            _visit(item, found, seen)
    elif isinstance(value, tf.Module) and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, tf.keras.layers.Layer):
            found[id(value)] = value
            for inner in value._flatten_modules(include_self=False):  # In the order they were attached.
                _visit(inner, found, seen)
        else:
            for name in sorted(vars(value)):
                _visit(vars(value)[name], found, seen)
