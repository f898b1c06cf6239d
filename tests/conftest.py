"""One process, eight logical CPU devices, and the same seed at the start of every test."""

import atexit
import functools
import os
import shutil
import signal
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
import tensorflow as tf

from tpuloop.runtime import Runtime

MOST_REPLICAS = 8


def pytest_addoption(parser):
    parser.addoption(
        "--long",
        action="store_true",
        help="more kills of runs on data of every kind, hosts for every kind, every model",
    )


def pytest_configure():
    # Whatever is left in temporary files goes at the end; AutoGraph leaves some of every process that is killed.
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="tpuloop-tests-")
    # Not the user's: what is counted here is of no use to him.
    os.environ["XDG_CACHE_HOME"] = os.path.join(tempfile.tempdir, "cache")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    # A shell hides these from what it runs in the background, and processes hand that down to the ones they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Once and before anything else uses the CPU: the number of logical devices is fixed from then on.
    Runtime.detect(accelerator="cpu", replicas=MOST_REPLICAS)
    tf.get_logger().setLevel("ERROR")
    tf.autograph.set_verbosity(0)


@pytest.fixture(scope="session")
def runtimes():
    """`runtimes(n)`: the runtime of n replicas, n up to 8; each made once."""
    return functools.lru_cache(maxsize=None)(lambda count: Runtime.detect(accelerator="cpu", replicas=count))


@pytest.fixture(autouse=True)
def _same_start():
    """Initial weights depend on the test alone, not on the tests before it."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(1)
    yield
    tf.keras.mixed_precision.set_global_policy("float32")
