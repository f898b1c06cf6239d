"""The loops that are compared, all doing the same work: one model, one optimizer, one set of data.

An MLP 32-64-64-10 on batches of 64, with Adam, the loss of every step and an accuracy: so little work that a step shows
what the loop around it costs. Most take ready batches in one order, which cost next to nothing. The last three shuffle
examples in memory, epoch by epoch, as each library would have its users do it.
"""

import dataclasses
import os
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.callbacks.progress import Progress
from tpuloop.callbacks.step_counter import StepCounter
from tpuloop.callbacks.tensorboard import TensorBoardScalars
from tpuloop.commands.bench.turns import Pause
from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop
from tpuloop.runtime import Runtime
from tpuloop.settings import LoopSettings

BATCH = 64
EPOCH = 100  # Batches in the data.
_WITHOUT_END = 10**9


@dataclasses.dataclass(frozen=True)
class Competitor:
    """A loop to be timed.

    Attributes:
      work: as `Lane` wants it; calls `report` with the mean loss and accuracy of all steps so far at each pause.
      together: steps that it runs in one call; a slice is a multiple of it.
      shuffles: whether it takes the examples in an order of its own.
    """

    work: Callable[[int, Pause], None]
    together: int
    reports: List[Dict[str, float]]
    shuffles: bool = False


def competitors(runtime: Runtime, *, steps_per_loop: int, per_execution: int, folder: str) -> Dict[str, Competitor]:
    """The loops by name.

    Args:
      steps_per_loop: steps in a compiled call of the graph loops.
      per_execution: Keras's `steps_per_execution`.
      folder: for what callbacks write.
    """
    features, labels = _examples()
    with tf.device("CPU:0"):
        examples = tf.data.Dataset.from_tensor_slices((features, labels))
        ready = features.reshape([EPOCH, BATCH, -1]), labels.reshape([EPOCH, BATCH])
        batches = tf.data.Dataset.from_tensor_slices(ready).repeat()
    kept = batches.with_options(_unsharded()).prefetch(tf.data.AUTOTUNE)
    shuffled = examples.shuffle(len(labels)).batch(BATCH).with_options(_unsharded()).prefetch(tf.data.AUTOTUNE)
    # One epoch without end where the order is kept, so that the logs are means over all steps.
    on_and_on: Dict[str, Any] = {"steps_per_epoch": _WITHOUT_END}
    by_epoch: Dict[str, Any] = {"epochs": _WITHOUT_END}

    def ours(*data: Any, callbacks: Sequence[Any] = (), **arguments: Any) -> Competitor:
        return _tpuloop(runtime, data, arguments, callbacks, steps_per_loop)

    def keras(*data: Any, steps: int = per_execution, **arguments: Any) -> Competitor:
        return _keras(runtime, data, arguments, steps)

    return {
        "tpuloop": ours(batches, steps=_WITHOUT_END),
        "hand-written": _hand_written(runtime, kept, steps_per_loop),
        "tpuloop with callbacks": ours(batches, steps=_WITHOUT_END, callbacks=_callbacks(folder)),
        f"model.fit, {per_execution} steps a call": keras(kept, **on_and_on),
        "model.fit": keras(kept, steps=1, **on_and_on),
        "tpuloop, shuffling": ours(features, labels, batch_size=BATCH, **by_epoch),
        f"model.fit(x, y), {per_execution} steps a call": keras(features, labels, batch_size=BATCH, **by_epoch),
        f"model.fit(dataset), {per_execution} steps a call": keras(shuffled, **by_epoch),
    }


def _callbacks(folder: str) -> List[Any]:
    """Those that `tpuloop train` gives a run by default."""
    lines = open(os.path.join(folder, "progress.txt"), "w")
    return [Progress(stream=lines), TensorBoardScalars(directory=os.path.join(folder, "events"))]


def _examples() -> Tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    features = random.rand(EPOCH * BATCH, 32).astype(np.float32)
    return features, (features @ random.randn(32, 10)).argmax(axis=-1)


def _model(runtime: Runtime, **options: Any) -> tf.keras.Model:
    tf.keras.utils.set_random_seed(1)
    with runtime.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(64, activation="relu", input_shape=(32,)),
                tf.keras.layers.Dense(64, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], **options)
    return model


def _tpuloop(
    runtime: Runtime, data: Sequence[Any], arguments: Dict[str, Any], callbacks: Sequence[Any], steps_per_loop: int
) -> Competitor:
    loop = TrainLoop(_model(runtime), runtime=runtime, settings=LoopSettings(steps_per_loop=steps_per_loop))
    reports: List[Dict[str, float]] = []

    def work(steps: int, pause: Pause) -> None:
        loop.fit(*data, callbacks=[*callbacks, _Ticker(steps, pause, reports)], **arguments)

    return Competitor(work, steps_per_loop, reports, shuffles="epochs" in arguments)


def _keras(runtime: Runtime, data: Sequence[Any], arguments: Dict[str, Any], per_execution: int) -> Competitor:
    model = _model(runtime, steps_per_execution=per_execution)
    reports: List[Dict[str, float]] = []

    # Keras takes the pause between slices, in the ticker, for a slow callback.
    tf.get_logger().addFilter(lambda record: "is slow compared to the batch time" not in record.getMessage())

    def work(steps: int, pause: Pause) -> None:
        model.fit(*data, verbose=0, callbacks=[_Ticker(steps, pause, reports)], **arguments)

    return Competitor(work, per_execution, reports, shuffles="epochs" in arguments)


def _hand_written(runtime: Runtime, data: tf.data.Dataset, steps_per_loop: int) -> Competitor:
    """What one writes after the TensorFlow guides for custom training loops and tf.distribute."""
    model, strategy, replicas = _model(runtime), runtime.strategy, runtime.replicas
    with runtime.scope():
        optimizer = tf.keras.optimizers.Adam(1e-3)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    # One replica needs no distribution. More take a slice each of a batch in the memory that they share, as in tpuloop,
    # which is quicker than what `experimental_distribute_dataset` does.
    iterator = iter(data)
    rows = BATCH // replicas

    def replica_step(batch: Any) -> tf.Tensor:
        features, labels = batch
        with tf.GradientTape() as tape:
            logits = model(features, training=True)
            value = tf.reduce_sum(loss(labels, logits)) / BATCH
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        accuracy.update_state(labels, logits)
        return value

    def part(batch: Any) -> Any:
        if replicas == 1:
            return batch
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.nest.map_structure(lambda leaf: _rows(leaf, context, rows), batch)
        )

    @tf.function
    def train(iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        losses = tf.TensorArray(tf.float32, size=steps)
        for step in tf.range(steps):
            per_replica = strategy.run(replica_step, args=(part(next(iterator)),))
            losses = losses.write(step, strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None))
        return losses.stack()

    reports: List[Dict[str, float]] = []

    def work(steps: int, pause: Pause) -> None:
        losses: List[np.ndarray] = []
        with runtime.scope():
            while steps:
                for start in range(0, steps, steps_per_loop):
                    count = min(steps_per_loop, steps - start)
                    losses.append(train(iterator, tf.constant(count)).numpy())
                    result = float(accuracy.result())
                reports.append({"loss": float(np.mean(np.concatenate(losses))), "accuracy": result})
                steps = pause()

    return Competitor(work, steps_per_loop, reports)


def _rows(leaf: tf.Tensor, context: Any, rows: int) -> tf.Tensor:
    start = context.replica_id_in_sync_group * rows
    return leaf[start : start + rows]


def _unsharded() -> tf.data.Options:
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


class _Ticker(Callback):
    """Ends a slice at its last step, in tpuloop's `fit` and in Keras's."""

    def __init__(self, steps: int, pause: Pause, reports: List[Dict[str, float]]):
        super().__init__()
        self._supports_tf_logs = True  # Keras need not fetch its logs after every batch for us.
        self._steps = StepCounter()
        self._until = steps
        self._pause = pause
        self._reports = reports

    def next_boundary(self, step: int) -> int:
        """The last step of the slice."""
        return self._until

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Batches are counted anew."""
        self._steps.epoch_begins()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """At the last step of a slice, waits for the next one."""
        self._steps.batch_ended(batch)
        if self._steps.done < self._until:
            return
        self._reports.append({name: float(value) for name, value in (logs or {}).items()})
        steps = self._pause()
        self._until += steps
        if not steps:
            self.model.stop_training = True
