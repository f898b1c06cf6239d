"""TensorFlow's start-up noise is kept from the user; nothing else is."""

import logging
import os
import re
import signal
import subprocess
import sys

import pytest

from tpuloop.commands import quiet

NOISE = [
    "2022-09-01 10:00:00.000000: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load "
    "dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file",
    "I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up",
    "W tensorflow/stream_executor/cuda/cuda_driver.cc:269] failed call to cuInit: UNKNOWN ERROR (303)",
    "I tensorflow/core/util/util.cc:169] oneDNN custom operations are on. You may see slightly different numerical",
    "I tensorflow/core/platform/cpu_feature_guard.cc:193] This TensorFlow binary is optimized with oneAPI Deep Neural",
    "To enable them in other operations, rebuild TensorFlow with the appropriate compiler flags.",
    "WARNING: Skipping registering GPU devices...",
]
REAL = [
    "W tensorflow/core/framework/cpu_allocator_impl.cc:82] Allocation of 8000000000 exceeds 10% of free system memory.",
    "F tensorflow/core/platform/cpu_feature_guard.cc:37] The TensorFlow library was compiled to use AVX instructions",
    "E tensorflow/core/common_runtime/eager/context_distributed_manager.cc:485] Socket closed",
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libtpu.so'",
]


@pytest.fixture
def stream():
    """A file descriptor, and a function that closes it and gives the lines that were written to it."""
    read_end, write_end = os.pipe()

    def lines():
        os.close(write_end)
        with os.fdopen(read_end, "rb") as reader:
            return reader.read().splitlines()

    return write_end, lines


@pytest.mark.parametrize("line", NOISE)
def test_noise(line):
    assert re.search(quiet.NOISE, line)


@pytest.mark.parametrize("line", REAL)
def test_no_noise(line):
    assert not re.search(quiet.NOISE, line)


def test_only_noise_is_dropped_and_only_inside(stream):
    descriptor, lines = stream
    with quiet.quiet_start(descriptor):
        for noise, real in zip(NOISE, REAL):
            os.write(descriptor, f"{noise}\n{real}\n".encode())
        os.write(descriptor, b"\xff is not UTF-8\n")
        os.write(descriptor, b"no line end")
    os.write(descriptor, f"\n{NOISE[0]}\n".encode())
    assert lines() == [*(line.encode() for line in REAL), b"\xff is not UTF-8", b"no line end", NOISE[0].encode()]


def test_more_than_a_pipe_holds_passes(tmp_path):
    with open(tmp_path / "log", "wb") as log, quiet.quiet_start(log.fileno()):
        for _ in range(20):
            os.write(log.fileno(), b"x" * 9999 + b"\n")
    assert os.path.getsize(tmp_path / "log") == 200_000


def test_an_error_inside_puts_the_stream_back(stream):
    descriptor, lines = stream
    with pytest.raises(KeyError), quiet.quiet_start(descriptor):
        raise KeyError
    os.write(descriptor, b"here\n")
    assert lines() == [b"here"]


def test_the_last_words_of_a_process_that_aborts_come_through():
    program = (
        "import os\n"
        "from tpuloop.commands import quiet\n"
        "with quiet.quiet_start():\n"
        "    os.write(2, b'failed call to cuInit\\nthis CPU has no AVX\\n')\n"
        "    os.abort()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr == b"this CPU has no AVX\n"


def test_a_reader_who_leaves_does_not_hold_up_the_writer():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with quiet.quiet_start(write_end):
        for _ in range(20):
            os.write(write_end, b"x" * 9999 + b"\n")
    os.close(write_end)


@pytest.mark.parametrize(
    "message, passes",
    [
        ("AutoGraph could not transform <function f> and will run it as-is.\nCause: no source", False),
        ("Using MirroredStrategy eagerly has significant overhead currently.", False),
        ("Gradients do not exist for variables ['w:0'] when minimizing the loss.", True),
        ("5 out of the last 5 calls to <function> triggered tf.function retracing.", True),
    ],
)
def test_warnings_from_python(message, passes):
    import tensorflow as tf

    quiet.filter_python_warnings()
    record = logging.LogRecord("tensorflow", logging.WARNING, __file__, 1, message, (), None)
    assert bool(tf.get_logger().filter(record)) is passes


def test_the_log_level_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    quiet.set_log_level()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    quiet.set_log_level()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"
