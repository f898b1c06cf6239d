"""The matrix products of a BERT in closed form: 2 floating-point operations for each multiply-add, and nothing else.

Look-ups (of segments too, though that is a product with one-hot rows), norms, softmax and activations are left out, as
is usual for a model's FLOPs (Chowdhery et al. 2022, arXiv:2204.02311, appendix B). A backward pass has two products for
each of the forward pass. Pure Python.
"""

from typing import Optional, cast

from ..checks import check_choice
from .settings import TASKS, BertSettings


def block_flops(settings: BertSettings, sequence_length: int) -> int:
    """One block's forward pass over one example."""
    length, width = sequence_length, settings.width
    feed_forward = cast(int, settings.feed_forward)  # The settings have put in what was None.
    projections = 4 * 2 * length * width * width  # query, key, value and output
    attention = 2 * 2 * length * length * width  # scores, and values by their weights
    return projections + attention + 2 * 2 * length * width * feed_forward


def forward_flops(
    settings: BertSettings,
    sequence_length: int,
    *,
    task: str = "masked_lm",
    max_predictions: int = 0,
    num_classes: Optional[int] = None,
) -> int:
    """The forward pass over one example, its head included.

    Args:
      settings: the sizes.
      sequence_length: of the example, padding included.
      task, num_classes: as `bert` takes them.
      max_predictions: masked positions of the example, for masked_lm and pretraining.
    """
    check_choice("task", task, TASKS)
    width = settings.width
    pooler = 2 * width * width
    words = 2 * max_predictions * width * (width + settings.vocab_size)
    head = {
        "masked_lm": words,
        "pretraining": words + pooler + 2 * width * 2,
        "classification": pooler + 2 * width * (num_classes or 0),
        "tagging": 2 * sequence_length * width * (num_classes or 0),
        "span": 2 * sequence_length * width * 2,
    }[task]
    return settings.layers * block_flops(settings, sequence_length) + head


def step_flops(settings: BertSettings, sequence_length: int, **head) -> int:
    """The model's FLOPs for one example of a training step, forward and backward: what MFU counts."""
    return 3 * forward_flops(settings, sequence_length, **head)


def executed_step_flops(settings: BertSettings, sequence_length: int, **head) -> int:
    """What a step does for one example: `step_flops`, and with `recompute` each block's forward pass once more."""
    again = settings.layers * block_flops(settings, sequence_length) if settings.recompute else 0
    return step_flops(settings, sequence_length, **head) + again
