"""TFRecords of one example each as a source of serialized examples: any existing files."""

from typing import Any, Sequence

import tensorflow as tf

from tpuloop.data.file_source import FileSource
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
        window: int,
        shuffle: bool = True,
        compression: str = "",
    ):
        super().__init__(
            RecordOrder(
                files,
                examples_per_record=1,
                window=window,
                shuffle=shuffle,
                decode=lambda records, examples: records,
                compression=compression,
            )
        )

    @property
    def element_spec(self) -> Any:
        return tf.TensorSpec([], tf.string)
