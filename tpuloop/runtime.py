"""Which devices a run uses, and why."""

import dataclasses
import glob
import logging
import os
import socket
from typing import Any, ContextManager, List, Optional

import tensorflow as tf

from tpuloop.accelerators import ACCELERATORS
from tpuloop.errors import UsageError, first_line

logger = logging.getLogger("tpuloop")

SUPPORTED_TENSORFLOW = "2.9"

_CONNECT_SECONDS = 5.0
_MOST_CPU_REPLICAS = 1024


class RuntimeUnavailable(RuntimeError):
    """The devices that were asked for are not there; the message lists what was tried."""


@dataclasses.dataclass(frozen=True)
class Runtime:
    """The devices of a run.

    Attributes:
      strategy: whose replicas run the steps. With one replica it is TensorFlow's default strategy, which costs nothing.
      accelerator: "tpu", "gpu" or "cpu".
      why: one line: what was chosen, and for what reason.
    """

    strategy: tf.distribute.Strategy
    accelerator: str
    why: str

    @property
    def replicas(self) -> int:
        """Replicas on all hosts together."""
        return self.strategy.num_replicas_in_sync

    @property
    def static_shapes(self) -> bool:
        """Whether every shape must be known before the step is compiled."""
        return self.accelerator == "tpu"

    @property
    def shared_memory(self) -> bool:
        """Whether the replicas are parts of the host's CPU, so that its memory is theirs."""
        return self.accelerator == "cpu"

    def scope(self) -> ContextManager[Any]:
        """Models and optimizers must be made inside."""
        return self.strategy.scope()

    @classmethod
    def detect(
        cls, *, accelerator: str = "auto", tpu: Optional[str] = None, replicas: Optional[int] = None
    ) -> "Runtime":
        """Finds the devices. Call it before anything else uses TensorFlow's devices.

        Args:
          accelerator: "auto" takes the first of TPU, GPU and CPU that is there; any other name insists.
          tpu: a TPU's name, "local" on a TPU VM, or an address grpc://...; insists on a TPU.
          replicas: on a CPU, the logical devices to split it into, which rehearses that many replicas; on GPUs, how
            many of them to use.

        Raises:
          ValueError: for arguments that contradict each other.
          RuntimeUnavailable: where what was asked for is not there.
        """
        check_tensorflow_version()
        if accelerator not in ACCELERATORS:
            raise UsageError(f"accelerator {accelerator!r} is unknown: use one of {', '.join(ACCELERATORS)}")
        if tpu is not None and accelerator not in ("auto", "tpu"):
            raise UsageError(f"tpu={tpu!r} contradicts accelerator={accelerator!r}: leave one of them out")
        if replicas is not None and replicas < 1:
            raise UsageError(f"replicas must be at least 1; it is {replicas}")
        if accelerator == "tpu" or tpu is not None:
            if replicas is not None:
                raise UsageError("replicas cannot be chosen on a TPU: its cores are the replicas; leave it out")
            return _tpu_runtime(tpu)
        if accelerator == "gpu":
            return _gpu_runtime(replicas, "as asked for")
        if accelerator == "cpu":
            return _cpu_runtime(replicas, "as asked for")
        return _first_available(replicas)

    @classmethod
    def of_model(cls, model: tf.keras.Model) -> "Runtime":
        """The devices a model was built for, whose strategy Keras remembers."""
        strategy = model.distribute_strategy
        if isinstance(strategy, (tf.distribute.TPUStrategy, tf.distribute.experimental.TPUStrategy)):
            accelerator = "tpu"
        else:
            accelerator = "gpu" if tf.config.list_logical_devices("GPU") else "cpu"
        return cls(strategy, accelerator, f"{type(strategy).__name__} of the model {model.name!r}")


def check_tensorflow_version(version: Optional[str] = None) -> None:
    """Refuses a TensorFlow whose internals this package was not made for.

    Raises:
      RuntimeUnavailable: for any version other than 2.9.
    """
    version = tf.__version__ if version is None else version
    if version.split(".")[:2] != SUPPORTED_TENSORFLOW.split("."):
        raise RuntimeUnavailable(
            f"TensorFlow {version} is installed, and tpuloop needs {SUPPORTED_TENSORFLOW}.*: it gives Keras layers "
            "stateless randomness and reads compiled losses through internals that other versions changed"
        )


def _first_available(replicas: Optional[int]) -> Runtime:
    """TPU, GPU or CPU, with what spoke against the earlier ones."""
    hint = _tpu_hint()
    if hint is not None and replicas is None:
        logger.info("trying a TPU, because %s", hint)
        try:
            return _tpu_runtime(None)
        except RuntimeUnavailable as error:
            passed_over = [str(error)]
    else:
        passed_over = ["no TPU (no TPU_NAME, KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS or /dev/accel0)"]
        if hint is not None:
            passed_over = [f"no TPU, since replicas={replicas} was given"]
    if tf.config.list_physical_devices("GPU"):
        return _gpu_runtime(replicas, passed_over[0])
    return _cpu_runtime(replicas, f"{passed_over[0]}, no GPU")


def _tpu_hint() -> Optional[str]:
    """What in the environment speaks for a TPU. Asks no network, which may hang where there is none."""
    for name in ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    devices = glob.glob("/dev/accel*")
    return f"{devices[0]} exists" if devices else None


def _tpu_runtime(tpu: Optional[str]) -> Runtime:
    name = tpu if tpu is not None else os.environ.get("TPU_NAME") or "local"
    tried = f"TPUClusterResolver(tpu={name!r}), connect, initialize"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            _check_reachable(resolver)
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        reason = first_line(error)
        if "No OpKernel was registered" in reason:
            reason = "this TensorFlow has no TPU runtime, which only that of a TPU VM's image has"
        raise RuntimeUnavailable(
            f"no TPU named {name!r} could be used (tried {tried}): {reason}. "
            "Give --tpu=NAME, --tpu=local on a TPU VM, or --accelerator=cpu"
        ) from error
    return Runtime(strategy, "tpu", f"TPU {name} with {strategy.num_replicas_in_sync} replicas")


def _check_reachable(resolver: tf.distribute.cluster_resolver.TPUClusterResolver) -> None:
    """Raises an OSError where no server listens, for which TensorFlow itself would wait without an end."""
    for addresses in resolver.cluster_spec().as_dict().values():
        for address in addresses:
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
            except OSError as error:
                raise OSError(f"nothing answers at {address} ({error})") from error


def _gpu_runtime(replicas: Optional[int], reason: str) -> Runtime:
    found = tf.config.list_physical_devices("GPU")
    count = len(found) if replicas is None else replicas
    if not found or count > len(found):
        raise RuntimeUnavailable(
            f"{max(count, 1)} GPU(s) were asked for and TensorFlow sees {len(found)} "
            f"(tried tf.config.list_physical_devices('GPU')): check nvidia-smi and the CUDA 11.2 libraries"
        )
    devices = [f"GPU:{index}" for index in range(count)]
    strategy = tf.distribute.get_strategy() if count == 1 else tf.distribute.MirroredStrategy(devices)
    return Runtime(strategy, "gpu", f"{count} GPU(s): {reason}")


def _cpu_runtime(replicas: Optional[int], reason: str) -> Runtime:
    count = 1 if replicas is None else replicas
    if count == 1:
        return Runtime(tf.distribute.get_strategy(), "cpu", f"1 CPU replica: {reason}")
    if count > _MOST_CPU_REPLICAS:
        raise UsageError(f"replicas on a CPU can be {_MOST_CPU_REPLICAS} at most; they are {count}")
    devices = _split_cpu(count)
    # Named, since the default looks for NCCL and warns that CPUs have none.
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
    return Runtime(strategy, "cpu", f"{count} replicas on logical CPU devices: {reason}")


def _split_cpu(count: int) -> List[str]:
    """Names of `count` logical CPU devices, made if need be."""
    physical = tf.config.list_physical_devices("CPU")[0]
    configured = tf.config.get_logical_device_configuration(physical)
    if configured is None or len(configured) < count:
        try:
            tf.config.set_logical_device_configuration(physical, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError as error:
            raise RuntimeUnavailable(
                f"{count} logical CPU devices cannot be made any more, since TensorFlow already uses the CPU: "
                "call Runtime.detect(replicas=...) first in the program"
            ) from error
    return [f"CPU:{index}" for index in range(count)]
