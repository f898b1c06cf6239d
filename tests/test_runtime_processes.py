"""Devices that are asked for and not there, or cannot be: found out quickly, in processes of their own."""

import json
import os
import socket
import subprocess
import sys

import pytest

DETECT = """
import json
import sys
from tpuloop.runtime import Runtime, RuntimeUnavailable
for arguments in json.loads(sys.argv[1]):
    try:
        runtime = Runtime.detect(**arguments)
        print(json.dumps([runtime.accelerator, runtime.replicas, runtime.why]))
    except RuntimeUnavailable as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""
TPU_VARIABLES = ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")


def detect(*arguments, env=None):
    """What `Runtime.detect` says to each in one new process: [accelerator, replicas, why], or [error, its text]."""
    environment = {name: value for name, value in os.environ.items() if name not in TPU_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", DETECT, json.dumps(arguments)],
        env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **(env or {})},
        stdout=subprocess.PIPE,
        timeout=60,
        encoding="utf-8",
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def closed_port():
    """A port of this machine at which nothing listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def test_auto_takes_the_cpu_and_says_why_and_logical_devices_are_replicas():
    assert detect({}, {"accelerator": "cpu", "replicas": 3}) == [
        ["cpu", 1, "1 CPU replica: no TPU (no TPU_NAME, KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS or /dev/accel0), no GPU"],
        ["cpu", 3, "3 replicas on logical CPU devices: as asked for"],
    ]


def test_auto_goes_on_to_the_cpu_where_the_tpu_of_the_environment_is_not_there(closed_port):
    ((accelerator, replicas, why),) = detect({}, env={"TPU_NAME": f"grpc://127.0.0.1:{closed_port}"})
    assert (accelerator, replicas) == ("cpu", 1)
    assert f"nothing answers at 127.0.0.1:{closed_port}" in why and why.endswith("no GPU")


def test_a_tpu_that_is_asked_for_and_not_there_is_an_error(closed_port):
    answers = detect({"tpu": f"grpc://127.0.0.1:{closed_port}"}, {"accelerator": "tpu"}, {"tpu": "local"})
    reasons = [
        f"nothing answers at 127.0.0.1:{closed_port}",
        "no TPU named 'local' could be used",
        "this TensorFlow has no TPU runtime",
    ]
    for (error, text), reason in zip(answers, reasons):
        assert error == "RuntimeUnavailable" and "\n" not in text
        assert reason in text and "tried TPUClusterResolver(tpu=" in text and "or --accelerator=cpu" in text
    assert len(answers) == 3


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"accelerator": "gpu"}, "1 GPU(s) were asked for and TensorFlow sees 0"),
        ({"accelerator": "gpu", "replicas": 2}, "2 GPU(s) were asked for and TensorFlow sees 0"),
        ({"replicas": 0}, "replicas must be at least 1; it is 0"),
        ({"replicas": 1025}, "replicas on a CPU can be 1024 at most; they are 1025"),
        (
            {"replicas": 2, "tpu": "local"},
            "replicas cannot be chosen on a TPU: its cores are the replicas; leave it out",
        ),
        ({"tpu": "local", "accelerator": "cpu"}, "tpu='local' contradicts accelerator='cpu': leave one of them out"),
        ({"accelerator": "cuda"}, "accelerator 'cuda' is unknown: use one of auto, tpu, gpu, cpu"),
    ],
)
def test_what_cannot_be(arguments, message):
    from tpuloop.errors import UsageError
    from tpuloop.runtime import Runtime, RuntimeUnavailable

    # No device is touched before the arguments are known to be wrong.
    with pytest.raises((UsageError, RuntimeUnavailable)) as error:
        Runtime.detect(**arguments)
    assert message in str(error.value)


def test_devices_cannot_be_split_once_they_are_used():
    program = (
        "import tensorflow as tf\n"
        "from tpuloop.runtime import Runtime, RuntimeUnavailable\n"
        "tf.zeros([])\n"
        "try:\n"
        "    Runtime.detect(replicas=2)\n"
        "except RuntimeUnavailable as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert b"call Runtime.detect(replicas=...) first in the program" in done.stdout


@pytest.mark.parametrize("flag", ["--accelerator=tpu", "--accelerator=gpu"])
def test_a_command_says_so_in_one_line_and_does_not_wait_for_devices(tmp_path, flag):
    done = subprocess.run(
        [sys.executable, "-m", "tpuloop", "train", flag, f"--workdir={tmp_path / 'run'}"],
        env={name: value for name, value in os.environ.items() if not name.startswith("TF_")},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("tpuloop train: error: ") and "tried" in line
    assert not (tmp_path / "run").exists()
