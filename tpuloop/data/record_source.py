"""TFRecords of one example each as a source of serialized examples: any existing files."""

from typing import Any, Dict, Optional, Sequence, Union

import tensorflow as tf

from tpuloop import paths
from tpuloop.data.file_source import FileSource
from tpuloop.data.index import counted
from tpuloop.data.lanes import RecordFile, RecordOrder

_WINDOW = 16384
_WINDOW_BYTES = 64 * 2**20


class RecordSource(FileSource):
    """The records of TFRecord files as scalar strings; parse them with `map_batches`.

    Args:
      files: in their stored order, with the number of their records; `index.counted` counts them.
      window: about how many records are shuffled with each other; by default 16384, or as many as fit into 64 MiB.
      shuffle: False keeps the stored order.
      compression: of the files: "", "GZIP" or "ZLIB".

    Raises:
      DataError: where the files hold no records.
    """

    def __init__(
        self,
        files: Sequence[RecordFile],
        *,
        window: Optional[int] = None,
        shuffle: bool = True,
        compression: str = "",
    ):
        self._arguments: Dict[str, Any] = {"window": window, "shuffle": shuffle, "compression": compression}
        super().__init__(
            RecordOrder(
                files,
                examples_per_record=1,
                window=_window(files) if window is None else window,
                shuffle=shuffle,
                decode=lambda records, examples: records,
                compression=compression,
            )
        )

    @classmethod
    def matching(
        cls,
        pattern: Union[str, Sequence[str]],
        *,
        window: Optional[int] = None,
        shuffle: bool = True,
        compression: str = "",
    ) -> "RecordSource":
        """The records of all files that match a pattern, or several, such as gs://BUCKET/train-*.tfrecord.

        Raises:
          UsageError: where a pattern matches nothing, or a file is no TFRecord file.
        """
        files = counted(paths.files_matching(pattern), compression=compression)
        return cls(files, window=window, shuffle=shuffle, compression=compression)

    def over(self, files: Sequence[RecordFile]) -> "RecordSource":
        return RecordSource(files, **self._arguments)

    @property
    def element_spec(self) -> Any:
        return tf.TensorSpec([], tf.string)


def _window(files: Sequence[RecordFile]) -> int:
    """As many records as are shuffled well and do not fill the memory, by the size of the first file."""
    first = next((file for file in files if file.records), None)
    if first is None:
        return 1
    record_bytes = tf.io.gfile.stat(first.path).length / (first.first + first.records)
    return int(min(_WINDOW, max(1, _WINDOW_BYTES // max(1, record_bytes))))
