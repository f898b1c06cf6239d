"""Which convolutions a residual network consists of. Pure Python: the model and its FLOPs are both read from here.

He et al., arXiv:1512.03385, table 1 and figure 5. Every convolution is padded by half its kernel on each side, so one
of stride s turns n pixels into ceil(n / s).
"""

import dataclasses
from typing import Dict, List, Optional, Sequence, Tuple

from .checks import check_choice, check_size, is_size

# Blocks in each of the four stages.
_BLOCKS: Dict[int, Tuple[int, int, int, int]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
_WIDTHS = (64, 128, 256, 512)
_STEMS = ("imagenet", "space_to_depth", "small")
_STRIDES_IN = ("3x3", "1x1")


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A square convolution without a bias.

    Attributes:
      name: of its layer.
      kernel, stride: in pixels.
      inputs, outputs: channels.
    """

    name: str
    kernel: int
    stride: int
    inputs: int
    outputs: int


@dataclasses.dataclass(frozen=True)
class Block:
    """What is added up: convolutions one after the other, and a way around them.

    Attributes:
      name: what its layers' names start with.
      convolutions: in their order.
      shortcut: a 1x1 convolution where the block changes the shape, None where the input itself is added.
    """

    name: str
    convolutions: Tuple[Convolution, ...]
    shortcut: Optional[Convolution]


@dataclasses.dataclass(frozen=True)
class ResNetLayout:
    """The settings that decide shapes; see `resnet` for what they mean.

    Raises:
      ValueError: for a value that makes no network.
    """

    input_shape: Sequence[int]
    num_classes: int
    depth: int = 50
    stem: str = "imagenet"
    stride_in: str = "3x3"

    def __post_init__(self) -> None:
        check_choice("depth", self.depth, _BLOCKS)
        check_choice("stem", self.stem, _STEMS)
        check_choice("stride_in", self.stride_in, _STRIDES_IN)
        check_size("num_classes", self.num_classes)
        if (
            not isinstance(self.input_shape, (list, tuple))
            or len(self.input_shape) != 3
            or not all(map(is_size, self.input_shape))
        ):
            raise ValueError(
                "input_shape must be height, width and channels, integers of at least 1, such as (224, 224, 3); "
                f"it is {self.input_shape!r}"
            )
        height, width, _ = self.input_shape
        if self.stem == "space_to_depth" and (height % 2 or width % 2):
            raise ValueError(
                f"stem space_to_depth needs an even height and width; they are {height} and {width}: "
                "use stem imagenet, which computes the same"
            )

    def first(self) -> Convolution:
        """The stem's convolution. A pooling of stride 2 follows, except in the small stem."""
        if self.stem == "small":
            return Convolution("stem_conv", 3, 1, self.input_shape[2], 64)
        return Convolution("stem_conv", 7, 2, self.input_shape[2], 64)

    def blocks(self) -> List[Block]:
        """All blocks, in their order."""
        blocks = []
        channels = self.first().outputs
        for stage, (count, width) in enumerate(zip(_BLOCKS[self.depth], _WIDTHS), start=1):
            for index in range(1, count + 1):
                stride = 2 if stage > 1 and index == 1 else 1
                blocks.append(self._block(f"stage{stage}_block{index}", channels, width, stride))
                channels = blocks[-1].convolutions[-1].outputs
        return blocks

    def _block(self, name: str, channels: int, width: int, stride: int) -> Block:
        if self.depth < 50:
            steps = [(3, stride, width), (3, 1, width)]
        elif self.stride_in == "3x3":
            steps = [(1, 1, width), (3, stride, width), (1, 1, 4 * width)]
        else:
            steps = [(1, stride, width), (3, 1, width), (1, 1, 4 * width)]
        convolutions = []
        inputs = channels
        for number, (kernel, step, outputs) in enumerate(steps, start=1):
            convolutions.append(Convolution(f"{name}_conv{number}", kernel, step, inputs, outputs))
            inputs = outputs
        shortcut = None
        if stride != 1 or channels != inputs:
            shortcut = Convolution(f"{name}_shortcut_conv", 1, stride, channels, inputs)
        return Block(name, tuple(convolutions), shortcut)
