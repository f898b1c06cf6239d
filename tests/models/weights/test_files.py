"""What a path means, and what is said of one that means nothing."""

import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from tpuloop.models.weights import files
from tpuloop.models.weights.errors import PackageMissing

ONE = {"a": np.ones([2], np.float32)}


def found(path):
    result = files.find(str(path))
    return result.kind, [os.path.basename(name) for name in result.paths]


def test_a_file_of_safetensors_and_a_folder_with_one_are_the_same(tmp_path):
    save_file(ONE, tmp_path / "model.safetensors")
    # Hugging Face's folders hold other files, and the same weights for other libraries.
    for name in ("config.json", "pytorch_model.bin", "tf_model.h5", "adapter.safetensors"):
        (tmp_path / name).write_text("{}")
    assert found(tmp_path) == found(tmp_path / "model.safetensors") == ("safetensors", ["model.safetensors"])


def test_a_folder_with_an_index_means_the_files_that_the_index_names(tmp_path):
    for part in ("1", "2", "3"):
        save_file(ONE, tmp_path / f"part-{part}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "part-1.safetensors", "b": "part-3.safetensors", "c": "part-1.safetensors"}}'
    )
    expected = ("safetensors", ["part-1.safetensors", "part-3.safetensors"])
    assert found(tmp_path) == found(tmp_path / "model.safetensors.index.json") == expected
    (tmp_path / "part-3.safetensors").unlink()
    with pytest.raises(ValueError, match=r"names .*part-3.safetensors, which is not there: download it again"):
        files.find(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none_is_said_to_be_none(tmp_path, text):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ValueError, match="is no index of safetensors files"):
        files.find(str(tmp_path))


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001"])
def test_a_tensorflow_checkpoint_by_its_prefix_by_any_of_its_files_and_by_its_folder(tmp_path, write_saver, ending):
    prefix = write_saver(ONE)
    assert files.find(prefix + ending) == files.find(str(tmp_path)) == files.Found("tensorflow", (prefix,))


@pytest.mark.parametrize("name", ["weights.h5", "weights.hdf5", "weights"])
def test_a_keras_file_by_its_ending_or_its_first_bytes(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n and so on")
    assert found(tmp_path / name) == ("keras", [name])


def test_the_only_keras_file_of_a_folder(tmp_path):
    (tmp_path / "best.h5").touch()
    assert found(tmp_path) == ("keras", ["best.h5"])


def test_several_files_of_a_folder_are_named_and_none_is_chosen(tmp_path):
    for name in ("model.ckpt-10.index", "model.ckpt-20.index"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"several files .*\(model.ckpt-10.index, model.ckpt-20.index\): name one"):
        files.find(str(tmp_path))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "resnet50.pth"])
def test_pickled_weights_are_refused_in_a_folder_too(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04 and so on")
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(ValueError, match=f"{name} is a pickled file of PyTorch: save it as safetensors first"):
            files.find(str(path))


def test_what_holds_no_weights_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"there is no .*/gone: give a .safetensors file, a Keras"):
        files.find(str(tmp_path / "gone"))
    with pytest.raises(ValueError, match="is a folder without weights: give a .safetensors file"):
        files.find(str(tmp_path))
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"notes.txt is no file of weights that is known here"):
        files.find(str(tmp_path / "notes.txt"))
    with pytest.raises(ValueError, match=r"notes.txt/x"):
        files.find(str(tmp_path / "notes.txt/x"))


def test_a_file_that_may_not_be_read_is_said_to_be_so(tmp_path, monkeypatch):
    (tmp_path / "a.h5").touch()

    def refuse(path, *arguments, **options):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)  # root may read any.
    with pytest.raises(ValueError, match=r"a.h5 cannot be read: Permission denied$"):
        files.find(str(tmp_path / "a.h5"))


def test_without_the_library_it_says_which_is_missing(tmp_path, monkeypatch):
    save_file(ONE, tmp_path / "a.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(PackageMissing, match=r"^the package safetensors is not installed$"):
        files.find(str(tmp_path))


@pytest.mark.parametrize("path", ["gs://bucket/model.safetensors", "gs://bucket/a.h5", "s3://bucket/x.bin"])
def test_only_tensorflow_reads_object_stores(path):
    with pytest.raises(ValueError, match="can only be read from a local disk: copy it here first"):
        files.find(path)


def test_a_checkpoint_of_a_remote_file_system_is_found_as_a_local_one_is(tmp_path, write_saver):
    prefix = f"file://{write_saver(ONE)}"
    assert files.find(prefix) == files.find(f"{prefix}.index") == files.find(f"file://{tmp_path}")
    assert files.find(prefix).open().shapes == {"a": (2,)}
    with pytest.raises(ValueError, match="holds no TensorFlow checkpoint"):
        files.find(f"file://{tmp_path}/gone")


def test_a_local_path_is_looked_at_without_tensorflow(tmp_path):
    save_file(ONE, tmp_path / "model.safetensors")
    program = (
        "import sys; from tpuloop.models.weights import files; files.find(sys.argv[1]);"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(ValueError, match="pipe.safetensors is neither a file nor a folder"):
        files.find(str(tmp_path / "pipe.safetensors"))


def test_an_index_that_nests_without_end_is_refused(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is no index of safetensors files"):
        files.find(str(tmp_path))
