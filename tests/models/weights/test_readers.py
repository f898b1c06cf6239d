"""The three formats: what is read is what was written, and a damaged file is said to be one."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file
from tpuloop.models.weights.files import find

ARRAYS = {"x/kernel": np.arange(6, dtype=np.float32).reshape(2, 3) / 7, "x/bias": np.float32([0.25, -3])}


def opened(path):
    return find(str(path)).open()


def test_safetensors_of_every_floating_type_are_read_in_float32(tmp_path, write_bfloat16):
    for dtype in (np.float16, np.float32, np.float64):
        save_file({"a": np.array([[1.5, -2.0]], dtype)}, tmp_path / "a.safetensors")
        values = opened(tmp_path / "a.safetensors")
        assert values.shapes == {"a": (1, 2)} and values.read("a").dtype == np.float32
        np.testing.assert_array_equal(values.read("a"), [[1.5, -2.0]])
    # Sign, 8 bits of exponent and 7 of fraction: 1.0, -2.0, 1 + 1/128 and 0.15625
    write_bfloat16(tmp_path / "b.safetensors", "b", [0x3F80, 0xC000, 0x3F81, 0x3E20], [2, 2])
    values = opened(tmp_path / "b.safetensors")
    assert values.shapes == {"b": (2, 2)} and values.read("b").dtype == np.float32
    np.testing.assert_array_equal(values.read("b"), [[1.0, -2.0], [1 + 1 / 128, 0.15625]])


def test_several_files_are_one(tmp_path):
    index = {name: f"{number}.safetensors" for number, name in enumerate(ARRAYS)}
    for name, file in index.items():
        save_file({name: ARRAYS[name]}, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(str({"weight_map": index}).replace("'", '"'))
    values = opened(tmp_path)
    assert values.shapes == {"x/kernel": (2, 3), "x/bias": (2,)}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(values.read(name), array)
    save_file(ARRAYS, tmp_path / "1.safetensors")
    with pytest.raises(ValueError, match="both hold x/kernel"):
        opened(tmp_path)


def test_a_type_that_numpy_lacks_is_named(tmp_path):
    header = b'{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ValueError, match="a is F8_E4M3: save it as float32 or bfloat16"):
        opened(tmp_path).read("a")


@pytest.mark.parametrize("kept", [0, 5, 60, -1])
def test_safetensors_that_were_cut_off_are_not_read(tmp_path, kept):
    path = tmp_path / "a.safetensors"
    save_file(ARRAYS, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="a.safetensors cannot be read as safetensors: "):
        opened(path)


def keras_model():
    return tf.keras.Sequential(
        [tf.keras.layers.Dense(3, name="first"), tf.keras.layers.Dense(2, name="second")], name="sequence"
    )


@pytest.mark.parametrize("whole", [False, True])
def test_keras_files_have_the_names_of_the_variables(tmp_path, whole):
    model = keras_model()
    model.build([None, 4])
    model.compile("adam", "mse")
    (model.save if whole else model.save_weights)(str(tmp_path / "a.h5"))
    values = opened(tmp_path / "a.h5")
    expected = {"first/kernel": (4, 3), "first/bias": (3,), "second/kernel": (3, 2), "second/bias": (2,)}
    assert values.shapes == expected
    for variable in model.variables:
        np.testing.assert_array_equal(values.read(variable.name[:-2]), variable.numpy())


def test_a_number_that_keras_gave_to_a_second_layer_of_the_name_does_not_count(tmp_path):
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["layer_names"] = [b"conv", b"conv_2"]
        for layer, weight in (("conv", b"conv_1/kernel:0"), ("conv_2", b"conv_2/kernel:0")):
            group = file.create_group(layer)
            group.attrs["weight_names"] = [weight]
            group[weight.decode()] = np.zeros([1])
    assert set(opened(tmp_path / "a.h5").shapes) == {"conv/kernel", "conv_2/kernel"}


def test_names_that_keras_had_to_split_are_put_together(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, name=f"{'long' * 2000}_{number}") for number in range(9)])
    model.build([None, 1])
    model.save_weights(str(tmp_path / "a.h5"))
    assert set(opened(tmp_path / "a.h5").shapes) == {variable.name[:-2] for variable in model.variables}


def test_hdf5_that_is_damaged_or_not_of_keras_is_not_read(tmp_path):
    import h5py

    path = tmp_path / "a.h5"
    model = keras_model()
    model.build([None, 4])
    model.save_weights(str(path))
    whole = path.read_bytes()
    for kept in (0, 4, len(whole) // 2):
        path.write_bytes(whole[:kept])
        with pytest.raises(ValueError, match="a.h5 cannot be read as HDF5: "):
            opened(path)
    path.unlink()
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros([2])
    with pytest.raises(ValueError, match="a.h5 is an HDF5 file, but not one of Model.save_weights or Model.save"):
        opened(path)


def test_a_checkpoint_of_tensorflow_1_has_its_names(write_saver):
    halves = {"half": np.float16([0.5])}
    counter = {"global_step": np.int64(7)}
    values = opened(
        write_saver({**ARRAYS, **halves, **counter, "brain": ARRAYS["x/bias"].astype(tf.bfloat16.as_numpy_dtype)})
    )
    assert values.shapes == {"x/kernel": (2, 3), "x/bias": (2,), "half": (1,), "brain": (2,)}
    for name, array in {**ARRAYS, **halves, "brain": ARRAYS["x/bias"]}.items():
        assert values.read(name).dtype == np.float32
        np.testing.assert_array_equal(values.read(name), array)


def test_a_checkpoint_by_object_tells_the_names_of_the_weights_alone(tmp_path):
    model = keras_model()
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(np.zeros([4, 4]), np.zeros([4, 2]), verbose=0)
    model.save_weights(str(tmp_path / "kept"))
    values = opened(tmp_path)
    assert set(values.shapes) == {"first/kernel", "first/bias", "second/kernel", "second/bias"}
    np.testing.assert_array_equal(values.read("second/kernel"), model.layers[1].kernel.numpy())


def test_what_an_optimizer_keeps_is_no_weight(tmp_path):
    parts = {
        name: tf.train.Checkpoint(part=tf.Variable(value, name="dense/kernel"))
        for name, value in (("model", 1.0), ("optimizer", 2.0))
    }
    tf.train.Checkpoint(**parts).write(str(tmp_path / "kept"))
    assert opened(tmp_path).read("dense/kernel") == 1.0


def test_a_checkpoint_of_several_replicas_has_no_names_and_says_what_to_do(tmp_path, runtimes):
    with runtimes(2).scope():
        model = keras_model()
        model.build([None, 4])
    model.save_weights(str(tmp_path / "kept"))
    with pytest.raises(ValueError, match="does not say what layer.* is called: save the model's weights as .h5"):
        opened(tmp_path)


def test_a_checkpoint_with_two_variables_of_one_name_is_refused(tmp_path):
    tf.train.Checkpoint(a=tf.Variable(0.0, name="same"), b=tf.Variable(0.0, name="same")).write(str(tmp_path / "kept"))
    with pytest.raises(ValueError, match="holds two variables called same"):
        opened(tmp_path)


def test_a_damaged_checkpoint_is_said_to_be_one(tmp_path, write_saver):
    prefix = write_saver(ARRAYS)
    data, index = tmp_path / "bert_model.ckpt.data-00000-of-00001", tmp_path / "bert_model.ckpt.index"
    whole = data.read_bytes()
    data.write_bytes(whole[:-5])
    with pytest.raises(ValueError, match="bert_model.ckpt is damaged or not complete at x/kernel"):
        opened(prefix).read("x/kernel")
    data.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ValueError, match="bert_model.ckpt is damaged or not complete at x/bias"):
        opened(prefix).read("x/bias")
    data.unlink()
    with pytest.raises(ValueError, match="bert_model.ckpt is damaged or not complete at x/bias"):
        opened(prefix).read("x/bias")
    for text in (b"", index.read_bytes()[:-20], b"hello"):
        index.write_bytes(text)
        with pytest.raises(ValueError, match="bert_model.ckpt cannot be read as a TensorFlow checkpoint"):
            opened(prefix)
