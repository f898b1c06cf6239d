"""Which checkpoints stay."""

from typing import List, Sequence


def to_delete(steps: Sequence[int], *, keep: int) -> List[int]:
    """All but the `keep` newest of `steps`, oldest first."""
    return sorted(steps)[:-keep]
