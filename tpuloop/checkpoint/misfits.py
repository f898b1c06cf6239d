"""Whether the values of a TensorFlow checkpoint fit the objects they are meant for, found out before any is read."""

from typing import Any, Dict, List, Sequence

import tensorflow as tf
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph
from tensorflow.python.training.tracking.graph_view import ObjectGraphView

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


def misfits(prefix: str, root: tf.train.Checkpoint) -> List[str]:
    """What `root.read(prefix)` could not give its value, one clause each; empty where everything fits.

    TensorFlow itself finds a misfit while it restores, when other variables have been overwritten. Objects are matched
    as it matches them, by the names of their edges from the root on. What does not exist yet, such as the layers of
    a model that is not built, takes its value when it is made and cannot be checked here.

    Raises:
      tf.errors.OpError: where the checkpoint's index cannot be read.
    """
    reader = tf.train.load_checkpoint(prefix)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    saved = TrackableObjectGraph.FromString(reader.get_tensor(_GRAPH_KEY)).nodes
    view = ObjectGraphView(root)
    objects, _, _ = view.objects_ids_and_slot_variables()
    _, graph, _ = view.serialize_object_graph()
    matches = _matches(graph.nodes, saved)
    found = []
    for number, (node, held) in enumerate(zip(graph.nodes, objects)):
        match = matches.get(number)
        keys = {} if match is None else {value.name: value.checkpoint_key for value in saved[match].attributes}
        for value in node.attributes:
            name, key = value_name(value.checkpoint_key), keys.get(value.name)
            if key is None:
                found.append(f"{name} is not in the checkpoint")
            elif isinstance(held, tf.Variable):  # Tables and the like have what size they are given.
                if not held.shape.is_compatible_with(shapes[key]):
                    there, here = tuple(shapes[key]), tuple(held.shape)
                    found.append(f"{name} has shape {there} in the checkpoint and {here} in the model")
                elif held.dtype.base_dtype != dtypes[key]:
                    there, here = dtypes[key].name, held.dtype.base_dtype.name
                    found.append(f"{name} is {there} in the checkpoint and {here} in the model")
    return found


def value_name(checkpoint_key: str) -> str:
    """The readable part of a key in a checkpoint: the path of edges to the value's object."""
    return checkpoint_key.split("/.ATTRIBUTES")[0]


def _matches(nodes: Sequence[Any], saved: Sequence[Any]) -> Dict[int, int]:
    """Number in `nodes` -> number in `saved`, for objects that both have."""
    matches = {0: 0}
    queue = [0]
    for number in queue:  # Grows while it runs.
        children = {child.local_name: child.node_id for child in saved[matches[number]].children}
        for child in nodes[number].children:
            if child.local_name in children and child.node_id not in matches:
                matches[child.node_id] = children[child.local_name]
                queue.append(child.node_id)
    # No edge leads to the slots of an optimizer: they are known by optimizer, variable and name.
    for number in queue:
        slots = {
            (slot.original_variable_node_id, slot.slot_name): slot.slot_variable_node_id
            for slot in saved[matches[number]].slot_variables
        }
        for slot in nodes[number].slot_variables:
            place = (matches.get(slot.original_variable_node_id), slot.slot_name)
            if place in slots:
                matches[slot.slot_variable_node_id] = slots[place]
    return matches
