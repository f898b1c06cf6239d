"""The names of variables in a checkpoint, which TensorFlow itself does not tell for several replicas."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.checkpoint.names import variable_names


@pytest.mark.parametrize("replicas", [1, 2])
def test_every_weight_has_its_name_and_no_counter_or_slot_has_one(runtimes, tmp_path, replicas):
    with runtimes(replicas).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, name="first"), tf.keras.layers.BatchNormalization()])
        model.build([None, 2])
        model.compile("adam", "mse")
        model.optimizer._create_all_weights(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(3, name="step"))
    names = variable_names(checkpoint)
    assert {name for key, name in names.items() if "/optimizer/" not in key} == {
        variable.name[:-2] for variable in model.variables
    }
    kept = tf.train.load_checkpoint(checkpoint.write(str(tmp_path / "kept")))
    by_name = {name: kept.get_tensor(key) for key, name in names.items()}
    np.testing.assert_array_equal(by_name["first/kernel"], model.layers[0].kernel.numpy())
