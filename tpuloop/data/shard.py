"""Which examples of every global batch one host reads."""

import dataclasses

from tpuloop.data.checks import DataError


@dataclasses.dataclass(frozen=True)
class Shard:
    """The share of one host in every global batch.

    Host `index` of `count` takes the rows index, index + count, index + 2 count and so on: row `r` of a global batch
    is row `r // count` on host `r % count`. So the content and order of a global batch do not depend on the number of
    hosts, while each can read other files than the rest.

    Raises:
      DataError: for an index outside 0 to count - 1.
    """

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.index < self.count:
            raise DataError(f"there is no shard {self.index} of {self.count}: shards count from 0")

    def rows(self, batch_size: int, *, position: int = 0) -> int:
        """How many rows of a global batch this host reads.

        Raises:
          DataError: where the hosts cannot have as many each, or the stream's position is no multiple of their number.
        """
        if position % self.count:
            raise DataError(f"{self.count} hosts cannot begin at example {position}, which is no multiple of them")
        if batch_size % self.count:
            lower = batch_size // self.count * self.count
            choices = f"{lower} or {lower + self.count}" if lower else str(self.count)
            raise DataError(f"the global batch of {batch_size} does not divide into {self.count} hosts: use {choices}")
        return batch_size // self.count


WHOLE = Shard()
