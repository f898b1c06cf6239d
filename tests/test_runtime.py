"""Which devices a run uses, and what is said where they are not there."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tpuloop.errors import UsageError
from tpuloop.runtime import Runtime, RuntimeUnavailable, check_tensorflow_version


@pytest.fixture
def no_tpu(monkeypatch):
    """An environment that speaks for no TPU."""
    for name in ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("version", ["2.10.0", "2.8.4", "3.0.0", "1.15.5", "2.90.1"])
def test_other_versions_of_tensorflow_are_refused_with_a_reason(version):
    with pytest.raises(RuntimeUnavailable) as caught:
        check_tensorflow_version(version)
    assert str(caught.value).startswith(f"TensorFlow {version} is installed, and tpuloop needs 2.9.*: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [None, "2.9.0", "2.9.3", "2.9.1-rc2"])
def test_versions_2_9_are_taken(version):
    check_tensorflow_version(version)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"accelerator": "npu"}, "accelerator 'npu' is unknown: use one of auto, tpu, gpu, cpu"),
        ({"accelerator": "cpu", "tpu": "mine"}, "tpu='mine' contradicts accelerator='cpu': leave one of them out"),
        ({"replicas": 0}, "replicas must be at least 1; it is 0"),
        (
            {"tpu": "mine", "replicas": 4},
            "replicas cannot be chosen on a TPU: its cores are the replicas; leave it out",
        ),
    ],
)
def test_contradictions(arguments, message):
    with pytest.raises(UsageError) as caught:
        Runtime.detect(**arguments)
    assert str(caught.value) == message


def test_one_cpu_replica_is_the_default_strategy_which_costs_nothing():
    runtime = Runtime.detect(accelerator="cpu")
    assert type(runtime.strategy) is type(tf.distribute.get_strategy())
    assert (runtime.replicas, runtime.accelerator, runtime.static_shapes) == (1, "cpu", False)
    assert runtime.why == "1 CPU replica: as asked for"


def test_several_cpu_replicas():
    runtime = Runtime.detect(accelerator="cpu", replicas=3)
    assert isinstance(runtime.strategy, tf.distribute.MirroredStrategy)
    assert runtime.replicas == 3
    assert [device[-5:] for device in runtime.strategy.extended.worker_devices] == ["CPU:0", "CPU:1", "CPU:2"]
    assert "3 replicas on logical CPU devices" in runtime.why


def test_more_logical_devices_than_the_process_has():
    with pytest.raises(
        RuntimeUnavailable, match=r"9 logical CPU devices cannot be made any more.*first in the program"
    ):
        Runtime.detect(accelerator="cpu", replicas=9)


def test_auto_says_what_it_passed_over(no_tpu):
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    runtime = Runtime.detect()
    assert (runtime.accelerator, runtime.replicas) == ("cpu", 1)
    assert "no TPU" in runtime.why and "no GPU" in runtime.why
    assert "\n" not in runtime.why


def test_gpus_that_are_not_there():
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeUnavailable, match=r"2 GPU\(s\) were asked for and TensorFlow sees 0 .*check nvidia-smi"):
        Runtime.detect(accelerator="gpu", replicas=2)


def test_a_tpu_that_is_not_there_is_an_error_and_no_fallback():
    # In a process of its own, since connecting changes the devices of the one that tries.
    code = "from tpuloop.runtime import Runtime; Runtime.detect(tpu='local')"
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith(
        "tpuloop.runtime.RuntimeUnavailable: no TPU named 'local' could be used (tried TPUClusterResolver"
    )
    assert last.endswith("Give --tpu=NAME, --tpu=local on a TPU VM, or --accelerator=cpu")


def test_of_a_model(runtimes):
    with runtimes(2).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    runtime = Runtime.of_model(model)
    assert runtime.strategy is runtimes(2).strategy
    assert runtime.replicas == 2
    assert Runtime.of_model(tf.keras.Sequential([tf.keras.layers.Dense(1)])).replicas == 1
