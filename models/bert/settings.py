"""The sizes of a BERT, checked when they are made."""

import dataclasses
from typing import Any, Optional

from ..checks import check_choice, check_share, check_size

TASKS = ("masked_lm", "pretraining", "classification", "tagging", "span")
ACTIVATIONS = ("gelu", "gelu_tanh")


@dataclasses.dataclass(frozen=True)
class BertSettings:
    """What the published sizes differ in (Turc et al. 2019, arXiv:1908.08962).

    Attributes:
      vocab_size: rows of the word embeddings.
      layers: encoder blocks.
      width: of the embeddings and of each block's output.
      heads: of attention; they share the width. By default one for each 64 of it.
      feed_forward: width within the feed-forward part. By default 4 times the width.
      max_positions: rows of the position embeddings, the longest sequence there can be.
      segments: rows of the segment embeddings, called token types in the original release.
      dropout: the share of activations set to 0 while training, from 0 up to but not including 1.
      attention_dropout: the same for the weights of attention.
      activation: "gelu", exact (with erf), or "gelu_tanh", the approximation of the original TensorFlow release.
      recompute: whether the backward pass computes each block anew, so that only the blocks' inputs stay in memory.

    Raises:
      ValueError: for a value that makes no network.
    """

    vocab_size: int
    layers: int = 12
    width: int = 768
    heads: Optional[int] = None
    feed_forward: Optional[int] = None
    max_positions: int = 512
    segments: int = 2
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    recompute: bool = False

    def __post_init__(self):
        for name in ("vocab_size", "layers", "width", "max_positions", "segments"):
            check_size(name, getattr(self, name))
        if self.heads is None:
            if self.width % 64:
                raise ValueError(
                    f"width must be a multiple of 64 where heads is not given; it is {self.width}: give heads"
                )
            object.__setattr__(self, "heads", self.width // 64)
        heads: Any = self.heads
        check_size("heads", heads)
        if self.width % heads:
            raise ValueError(f"width must be a multiple of heads; width is {self.width}, heads is {heads}")
        if self.feed_forward is None:
            object.__setattr__(self, "feed_forward", 4 * self.width)
        check_size("feed_forward", self.feed_forward)
        for name in ("dropout", "attention_dropout"):
            check_share(name, getattr(self, name))
        check_choice("activation", self.activation, ACTIVATIONS)
        if not isinstance(self.recompute, bool):
            raise ValueError(f"recompute must be True or False; it is {self.recompute!r}")
