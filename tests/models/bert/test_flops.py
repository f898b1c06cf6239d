"""The FLOPs of a BERT by hand."""

import pytest
from tpuloop.models.bert import BertSettings
from tpuloop.models.bert.flops import executed_step_flops, forward_flops, step_flops

TINY = {"vocab_size": 7, "layers": 2, "width": 4, "heads": 2, "feed_forward": 6}
# Length 3. Projections: four of 3 x 4 by 4 x 4, 48 multiply-adds each, 192. Scores and mixing: two of 3 x 3 x 4, 72.
# Feed-forward: 3 x 4 x 6 twice, 144. Together 408, so 816 operations.
BLOCK = 816


@pytest.mark.parametrize(
    "head, flops",
    [
        # Two positions: 2 x 4 x 4 to transform and 2 x 4 x 7 to words, 88 multiply-adds
        ({"task": "masked_lm", "max_predictions": 2}, 176),
        # and 4 x 4 to pool, 4 x 2 for the next sentence: 24
        ({"task": "pretraining", "max_predictions": 2}, 176 + 48),
        # 4 x 4 and 4 x 5
        ({"task": "classification", "num_classes": 5}, 72),
        # 3 x 4 x 5
        ({"task": "tagging", "num_classes": 5}, 120),
        # 3 x 4 x 2
        ({"task": "span"}, 48),
    ],
)
def test_a_forward_pass_and_a_step_by_hand(head, flops):
    assert forward_flops(BertSettings(**TINY), 3, **head) == 2 * BLOCK + flops
    assert step_flops(BertSettings(**TINY), 3, **head) == 3 * (2 * BLOCK + flops)


def test_recomputation_is_executed_but_is_not_of_the_model():
    plain, recompute = BertSettings(**TINY), BertSettings(**TINY, recompute=True)
    head = {"task": "masked_lm", "max_predictions": 2}
    assert step_flops(recompute, 3, **head) == step_flops(plain, 3, **head) == executed_step_flops(plain, 3, **head)
    assert executed_step_flops(recompute, 3, **head) - step_flops(recompute, 3, **head) == 2 * BLOCK


def test_an_unknown_task_is_named():
    with pytest.raises(ValueError, match="task must be one of masked_lm, .*; it is 'words'"):
        forward_flops(BertSettings(**TINY), 3, task="words")
