"""The line that training and evaluation end with."""

from tpuloop.commands.result_line import baseline_line, result_line


def test_numbers_by_name():
    values = {"loss": 0.10984, "accuracy": 0.97222, "per_class": [0.5, 1.0]}
    assert result_line("held-out", values, step=1500) == "held-out accuracy 0.9722, loss 0.1098 at step 1500"


def test_a_baseline_is_said_likewise():
    line = baseline_line({"masked_accuracy": 0.0683, "loss": 5.6607})
    assert line == "a guess that looks at no input: loss 5.6607, masked_accuracy 0.0683"
