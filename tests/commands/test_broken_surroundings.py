"""What a run meets around it: folders that cannot be written, streams that are full, data that has its own batches."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.commands import assemble, streams
from tpuloop.commands.folder import RunFolder
from tpuloop.commands.recipe import Recipe
from tpuloop.errors import UsageError, first_line


@pytest.mark.parametrize("path", ["s3://bucket/run", "nothing://run"])
def test_a_file_system_that_is_not_there_is_told_in_one_line(path):
    with pytest.raises(UsageError, match=f"--workdir={path} cannot be used: .*") as told:
        RunFolder(path)
    assert len(str(told.value).splitlines()) == 1


def test_a_file_where_the_events_go_is_told_before_anything_is_compiled(tmp_path):
    (tmp_path / "events").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        RunFolder(str(tmp_path)).record({}, program="tpuloop", flags={})


def test_a_full_disk_behind_standard_error_silences_it_and_behind_standard_output_is_an_error():
    with open("/dev/full", "w") as full:
        stderr = streams._Patient(full, forgives_all=True)
        stderr.write("x" * 100_000)
        stderr.flush()
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "w", buffering=1) as full:
        streams._Patient(full).write("a line\n")


def test_the_batches_of_a_dataset_are_what_they_are():
    data = tf.data.Dataset.from_tensor_slices(np.zeros([60, 2])).batch(30, drop_remainder=True)
    assert assemble.global_batch(data, Recipe(), asked=False) == 30
    assert assemble.global_batch(data.unbatch().batch(30), Recipe(), asked=False) is None
    assert assemble.global_batch(np.zeros([60, 2]), Recipe(global_batch=7), asked=True) == 7
    with pytest.raises(UsageError, match="--global_batch=9 would have no effect"):
        assemble.global_batch(data, Recipe(global_batch=9), asked=True)


def test_an_error_without_words_is_named_by_its_kind():
    assert first_line(ValueError("")) == "ValueError"
    assert first_line(KeyError()) == "KeyError"
    assert first_line(ValueError("one\ntwo")) == "one"
