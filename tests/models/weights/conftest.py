"""Models that are nothing but variables of given names, and files of weights for them."""

import struct

import numpy as np
import pytest
import tensorflow as tf


class Named(tf.keras.Model):
    """Has the variables of `shapes`, zeros all."""

    def __init__(self, shapes, **kwargs):
        super().__init__(**kwargs)
        self.all = [tf.Variable(tf.zeros(shape), name=name) for name, shape in shapes.items()]
        self.built = True

    def values(self):
        return {variable.name[:-2]: variable.numpy() for variable in self.all}


@pytest.fixture(scope="session")
def named_model():
    """`named_model({name: shape})`; `.values()` are its variables by name."""
    return Named


@pytest.fixture
def random_arrays():
    """`random_arrays({name: shape})`: float32 arrays."""

    def make(shapes):
        random = np.random.RandomState(0)
        return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

    return make


@pytest.fixture
def write_saver(tmp_path):
    """`write_saver({name: array})`: the prefix of a checkpoint as TensorFlow 1 writes one."""

    def write(arrays, name="bert_model.ckpt"):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            for key, array in arrays.items():
                tf.compat.v1.get_variable(key, initializer=array)
            session.run(tf.compat.v1.global_variables_initializer())
            return tf.compat.v1.train.Saver().save(session, str(tmp_path / name), write_meta_graph=False)

    return write


@pytest.fixture
def write_bfloat16():
    """`write_bfloat16(path, name, halves, shape)`: a safetensors file of one bfloat16 array of these bits."""

    def write(path, name, halves, shape):
        data = struct.pack(f"<{len(halves)}H", *halves)
        header = f'{{"{name}":{{"dtype":"BF16","shape":{list(shape)},"data_offsets":[0,{len(data)}]}}}}'.encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + data)

    return write
