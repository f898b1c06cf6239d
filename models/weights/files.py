"""Which files a path means, found out without TensorFlow and before anything is built."""

import dataclasses
import os
from typing import List, Tuple

from . import safetensors_file
from .values import Values, one_line

_HDF5 = b"\x89HDF\r\n\x1a\n"
_INDEX = "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_KNOWN = "a .safetensors file, a Keras .h5 file, a TensorFlow checkpoint, or a folder with one of them"


@dataclasses.dataclass(frozen=True)
class Found:
    """Attributes:
    kind: "safetensors", "keras" or "tensorflow".
    paths: the files; of a TensorFlow checkpoint its prefix.
    """

    kind: str
    paths: Tuple[str, ...]

    def open(self) -> Values:
        """The arrays. Loads TensorFlow, or what else reads the format.

        Raises:
          ValueError: where the files cannot be read.
        """
        if self.kind == "safetensors":
            return safetensors_file.SafetensorsFiles(self.paths)
        if self.kind == "keras":
            from .keras_file import KerasFile

            return KerasFile(self.paths[0])
        from .tensorflow_checkpoint import TensorFlowCheckpoint

        return TensorFlowCheckpoint(self.paths[0])


def find(path: str) -> Found:
    """What a path means: a file, a TensorFlow checkpoint's prefix, or a folder with weights in it.

    In an object store (`gs://...`) only TensorFlow checkpoints can be used, and TensorFlow is loaded to look.

    Raises:
      ValueError: where there is nothing that can be read, with what to do.
    """
    if "://" in path:
        return _find_remote(path)
    try:
        if os.path.isdir(path):
            return _in_folder(path, sorted(os.listdir(path)))
        prefix = _prefix_of(path)
        if os.path.isfile(f"{prefix}.index"):
            return Found("tensorflow", (prefix,))
        if not os.path.exists(path):
            raise ValueError(f"there is no {path}: give {_KNOWN}")
        return _file(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or one_line(error)}") from error


def _file(path: str) -> Found:
    if not os.path.isfile(path):
        raise ValueError(f"{path} is neither a file nor a folder: give {_KNOWN}")
    with open(path, "rb") as file:
        start = file.read(8)
    if path.endswith(".index.json"):
        return _safetensors(safetensors_file.shards(path))
    if path.endswith(".safetensors"):
        return _safetensors([path])
    if start == _HDF5 or path.endswith((".h5", ".hdf5")):
        return Found("keras", (path,))
    if path.endswith(_PICKLED):
        raise ValueError(f"{path} is a pickled file of PyTorch: save it as safetensors first")
    raise ValueError(f"{path} is no file of weights that is known here: give {_KNOWN}")


def _safetensors(paths: List[str]) -> Found:
    safetensors_file.need_library()
    return Found("safetensors", tuple(paths))


def _in_folder(folder: str, names: List[str]) -> Found:
    """Hugging Face's usual name first, since its folders often hold the same weights in other formats too."""
    if _INDEX in names:
        return _file(os.path.join(folder, _INDEX))
    if "model.safetensors" in names:
        return _file(os.path.join(folder, "model.safetensors"))
    for endings in ((".safetensors",), (".index",), (".h5", ".hdf5")):
        fitting = [name for name in names if name.endswith(endings)]
        if len(fitting) > 1:
            raise ValueError(f"{folder} holds several files of weights ({', '.join(fitting[:5])}): name one")
        if fitting:
            return find(os.path.join(folder, fitting[0]))
    pickled = [name for name in names if name.endswith(_PICKLED)]
    if pickled:
        return _file(os.path.join(folder, pickled[0]))
    raise ValueError(f"{folder} is a folder without weights: give {_KNOWN}")


def _prefix_of(path: str) -> str:
    stem, dot, ending = path.rpartition(".")
    return stem if dot and (ending == "index" or ending.startswith("data-")) else path


def _find_remote(path: str) -> Found:
    import tensorflow as tf

    if path.endswith((".safetensors", ".index.json", ".h5", ".hdf5", ".bin", ".pt", ".pth")):
        raise ValueError(f"{path} can only be read from a local disk: copy it here first")
    prefix = _prefix_of(path)
    try:
        if tf.io.gfile.exists(f"{prefix}.index"):
            return Found("tensorflow", (prefix,))
        names = sorted(tf.io.gfile.listdir(path)) if tf.io.gfile.isdir(path) else []
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(f"{path} cannot be looked at: {one_line(error)}") from error
    prefixes = [name for name in names if name.endswith(".index")]
    if len(prefixes) > 1:
        raise ValueError(f"{path} holds several files of weights ({', '.join(prefixes[:5])}): name one")
    if prefixes:
        return Found("tensorflow", (os.path.join(path, prefixes[0][: -len(".index")]),))
    raise ValueError(f"{path} holds no TensorFlow checkpoint: give one, or copy files of another format here first")
