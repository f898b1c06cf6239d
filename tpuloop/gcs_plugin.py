"""Settings under which TensorFlow's plugin for `gs://` reads what is there.

TensorFlow 2.9 has code of its own for `gs://`, and uses the package `tensorflow-io-gcs-filesystem` in its place where
TF_USE_MODULAR_FILESYSTEM is set, which is also the only way to a storage emulator. Version 0.26 of it has two faults:
where it reads ahead, a read before the start of its buffer takes memory that is not the file's, and TensorFlow reads
the index of a checkpoint in such an order; and what it knows of a file it believes for five seconds, in which the
file may have been written anew.
"""

from typing import MutableMapping

_SETTINGS = {"GCS_READ_CACHE_BLOCK_SIZE_MB": "0", "GCS_STAT_CACHE_MAX_AGE": "0"}


def avoid_faults(environment: MutableMapping[str, str]) -> None:
    """Turns off reading ahead and remembering where the plugin is used, unless the user has set them.

    Call it before the first `gs://` path is looked at.
    """
    if environment.get("TF_USE_MODULAR_FILESYSTEM") in ("1", "true"):
        for name, value in _SETTINGS.items():
            environment.setdefault(name, value)
