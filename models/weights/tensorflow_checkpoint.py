"""Checkpoints of TensorFlow: of `tf.compat.v1.train.Saver`, by name, and of `tf.train.Checkpoint`, by object."""

from typing import Dict, Mapping, Optional

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from .values import Values, as_float32, one_line

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Edges of an object graph behind which no weight of the model is: what optimizes it, and what Keras notes of it.
_NO_WEIGHTS = {"optimizer", "keras_api"}
# How reading a damaged checkpoint fails. TensorFlow's reader translates some of its errors.
_DAMAGED = (tf.errors.OpError, IndexError, RuntimeError, ValueError)


class TensorFlowCheckpoint(Values):
    """The variables of a checkpoint by their names; of one by object, the weights only. Counters are left out.

    Args:
      prefix: its path without `.index`; also one of an object store that TensorFlow knows, such as `gs://`.
      names: the variables' names by their keys in the checkpoint, where that is known. Else a checkpoint by object
        tells them itself, except for variables of several replicas, which it leaves without a name.

    Raises:
      ValueError: where it cannot be read, or does not tell names.
    """

    def __init__(self, prefix: str, *, names: Optional[Mapping[str, str]] = None):
        self._prefix = prefix
        self.shapes = {}
        self._keys: Dict[str, str] = {}
        try:
            self._reader = tf.train.load_checkpoint(prefix)
            shapes, dtypes = self._reader.get_variable_to_shape_map(), self._reader.get_variable_to_dtype_map()
            if names is None:
                names = self._names_in_graph() if _GRAPH in shapes else {key: key for key in shapes}
        except _DAMAGED as error:
            raise ValueError(f"{prefix} cannot be read as a TensorFlow checkpoint: {one_line(error)}") from error
        for key, name in names.items():
            if not _NO_WEIGHTS.isdisjoint(key.split("/")) or ".OPTIMIZER_SLOT" in key or not dtypes[key].is_floating:
                continue
            if not name:
                raise ValueError(f"{prefix} does not say what {key} is called: save the model's weights as .h5 instead")
            if name in self.shapes:
                raise ValueError(f"{prefix} holds two variables called {name}: save a model whose names differ")
            self.shapes[name] = tuple(shapes[key])
            self._keys[name] = key

    def read(self, name: str) -> np.ndarray:
        try:
            return as_float32(self._reader.get_tensor(self._keys[name]))
        except _DAMAGED as error:
            raise ValueError(f"{self._prefix} is damaged or not complete at {name}: {one_line(error)}") from error

    def _names_in_graph(self) -> Dict[str, str]:
        graph = TrackableObjectGraph.FromString(self._reader.get_tensor(_GRAPH))
        return {
            attribute.checkpoint_key: attribute.full_name
            for node in graph.nodes
            for attribute in node.attributes
            if attribute.name == "VARIABLE_VALUE"
        }
