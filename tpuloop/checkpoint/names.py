"""The names of a checkpoint's variables, which TensorFlow leaves out for variables of several replicas."""

from typing import Dict

import tensorflow as tf
from tensorflow.python.training.tracking.graph_view import ObjectGraphView


def variable_names(root: tf.train.Checkpoint) -> Dict[str, str]:
    """Key in the checkpoint -> the variable's name without ":0". Counters and the slots of optimizers are left out."""
    view = ObjectGraphView(root)
    objects, _, _ = view.objects_ids_and_slot_variables()
    _, graph, _ = view.serialize_object_graph()
    return {
        value.checkpoint_key: held.name.split(":")[0]
        for node, held in zip(graph.nodes, objects)
        for value in node.attributes
        if isinstance(held, tf.Variable) and held.dtype.is_floating and ".OPTIMIZER_SLOT" not in value.checkpoint_key
    }
