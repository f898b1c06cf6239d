"""Every name of the registry trains by the command, and help lists it."""

import os
import re

import pytest

from tpuloop import models

SMALL = {
    "mlp": ["--data=digits"],
    "resnet": ["--data=synthetic", "--config.data.input_shape=(32,32,3)", "--config.data.num_classes=4"],
    "bert": ["--data=pydoc", "--config.data.sequence_length=64", "--config.model.width=16", "--config.model.heads=2"],
}
README = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "README.md")


def test_help_lists_them(quick_tpuloop):
    text = quick_tpuloop("train", "--help").out
    (listed,) = re.findall(r"--model\n\s+Model: (.*?), or module", text, flags=re.DOTALL)
    assert listed.replace(",", " ").split() == list(models.REGISTRY)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(models.REGISTRY))
def test_a_model_of_the_registry_trains(quick_tpuloop, request, tmp_path, name):
    if name not in ("resnet50", "bert_mini") and not request.config.getoption("--long"):
        pytest.skip("only with --long")
    small = SMALL[re.match("[a-z]+", name)[0]]
    # One by one: tracing the large ones takes longer than a step of them.
    sizes = ["--steps=1", "--global_batch=32", "--eager", f"--workdir={tmp_path / 'run'}"]
    result = quick_tpuloop("train", f"--model={name}", *small, *sizes, timeout=600)
    assert result.status == 0, result.err
    assert re.search(r"^(held-out|training) .*loss \d+\.\d{4}.* at step 1$", result.out, flags=re.MULTILINE)
    if name.startswith("bert"):  # The data knows what frequencies alone would give.
        guess = r"^a guess that looks at no input: loss \d\.\d{4}, masked_accuracy 0\.\d{4}$"
        assert re.search(guess, result.out, flags=re.MULTILINE)
    assert re.search(
        rf"^model: {name}( with width=16 in the place of \d+)?, [\d,]+ parameters$", result.err, re.MULTILINE
    )


def commands_of_the_readme():
    """What the README has for laptops, without the program's name."""
    with open(README, encoding="utf-8") as file:
        (block,) = re.findall(r"^Three recipes are for a laptop.*?```\n(.*?)```", file.read(), re.DOTALL | re.MULTILINE)
    return [line.split("#")[0].split()[1:] for line in block.splitlines()]


@pytest.mark.slow
def test_the_recipes_for_laptops_reach_their_numbers(tpuloop, request, tmp_path, curve):
    if not request.config.getoption("--long"):
        pytest.skip("only with --long")
    resnet, words, docstrings = commands_of_the_readme()

    def run(command, *more):
        result = tpuloop(*command, *more, cwd=tmp_path, timeout=3000)
        assert result.status == 0, result.err
        return {name: float(value) for name, value in re.findall(r"(\w+) (\d+\.\d+)", result.out.splitlines()[0])}

    assert run(resnet)["accuracy"] >= 0.98
    assert run(words)["masked_accuracy"] > 0.25
    loss = [value for _, value in curve(tmp_path / "runs" / "bert_pydoc")]
    assert sum(loss[-50:]) / 50 <= 0.6 * loss[99]
    for seed in (0, 1, 2):  # A guess has 0.17.
        workdir = f"--workdir={tmp_path / f'docstrings-{seed}'}"
        assert run(docstrings, f"--seed={seed}", workdir)["accuracy"] > 0.6
