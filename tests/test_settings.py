"""Settings that make no sense are named when they are made."""

import dataclasses

import numpy as np
import pytest

from tpuloop.errors import UsageError
from tpuloop.settings import LoopSettings


def test_defaults_are_good_and_settings_do_not_change():
    settings = LoopSettings()
    assert settings == LoopSettings(seed=0, steps_per_loop="auto", loop="graph", accumulate_steps=1, keep=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.seed = 1


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("seed", -1, "seed must be an integer from 0 to 2**62 - 1; it is -1"),
        ("seed", 2**62, f"seed must be an integer from 0 to 2**62 - 1; it is {2**62}"),
        ("seed", 1.0, "seed must be an integer from 0 to 2**62 - 1; it is 1.0"),
        ("seed", True, "seed must be an integer from 0 to 2**62 - 1; it is True"),
        ("steps_per_loop", 0, 'steps_per_loop must be an integer of at least 1, or "auto"; it is 0'),
        ("steps_per_loop", "fast", "steps_per_loop must be an integer of at least 1, or \"auto\"; it is 'fast'"),
        ("steps_per_loop", None, 'steps_per_loop must be an integer of at least 1, or "auto"; it is None'),
        ("loop", "eager", "loop must be one of graph, host; it is 'eager'"),
        ("clip_norm", 0, "clip_norm must be a positive number, or None; it is 0"),
        ("clip_norm", -1.0, "clip_norm must be a positive number, or None; it is -1.0"),
        ("clip_norm", float("nan"), "clip_norm must be a positive number, or None; it is nan"),
        ("clip_norm", "1", "clip_norm must be a positive number, or None; it is '1'"),
        ("accumulate_steps", 0, "accumulate_steps must be an integer of at least 1; it is 0"),
        ("accumulate_steps", True, "accumulate_steps must be an integer of at least 1; it is True"),
        ("save_every", 0, "save_every must be an integer of at least 1, or None; it is 0"),
        ("save_every", 2.5, "save_every must be an integer of at least 1, or None; it is 2.5"),
        ("keep", 0, "keep must be an integer of at least 1; it is 0"),
        ("keep", None, "keep must be an integer of at least 1; it is None"),
    ],
)
def test_message(name, value, message):
    with pytest.raises(UsageError) as caught:
        LoopSettings(**{name: value})
    assert str(caught.value) == message


def test_every_setting_may_be_given():
    settings = LoopSettings(
        seed=2**62 - 1,
        steps_per_loop=7,
        loop="host",
        clip_norm=np.float32(0.5),
        accumulate_steps=2,
        save_every=5,
        keep=1,
    )
    assert settings.steps_per_loop == 7
    assert LoopSettings(clip_norm=1).clip_norm == 1
