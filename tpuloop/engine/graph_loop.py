"""k steps in one compiled call, with one trace for every k."""

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import summary_ops_v2

from tpuloop.engine.autograph import converting_for_keras
from tpuloop.engine.step import GlobalStep
from tpuloop.engine.stop import StopFlag
from tpuloop.engine.trace import StepTrace
from tpuloop.errors import usage_errors_as_raised

Results = Callable[[], Dict[str, tf.Tensor]]


class CallResult(NamedTuple):
    """What one call of a loop did.

    Attributes:
      trace: its steps; empty if it was stopped before the first.
      results: the state of the metrics after the last step, as floats.
      data_ended: whether the data ended before the steps did.
      halted: whether it ended at a step whose first output is not finite, since that was asked for.
    """

    trace: StepTrace
    results: Dict[str, float]
    data_ended: bool
    halted: bool


class GraphLoop:
    """Runs steps inside one `tf.function`, without a way back to Python in between.

    ```
    while steps are left, nobody asked to stop and the last loss was finite (if that is asked for):
        asked = timestamp; batch = next(iterator); came = timestamp
        announced = number + 1
        sums = step(number, *batch)        # every replica, reduced
        counters = number + 1
        record sums, asked, came
    results = metrics
    ```

    Args:
      step: one step over all replicas.
      stop: its limit is read before every step.
      counters: variables that hold the number of steps done; kept true at every step.
      announced: variables that hold the number of the step that runs, counted from 1.
      results: called in cross-replica context after the last step; named scalars.
      halt_on_nonfinite: end the call after a step whose first output is not finite.
      data_may_end: the length of the data is unknown, so each step looks whether there is another batch. Costs a
        little; without it, the data must hold as many batches as steps are asked for.
    """

    def __init__(
        self,
        *,
        step: GlobalStep,
        stop: StopFlag,
        counters: Sequence[tf.Variable],
        results: Results,
        announced: Sequence[tf.Variable] = (),
        halt_on_nonfinite: bool = False,
        data_may_end: bool = False,
    ):
        self._step = step
        self._stop = stop
        self._counters = counters
        self._announced = announced
        self._results = results
        self._halt_on_nonfinite = halt_on_nonfinite
        self._data_may_end = data_may_end
        # A partial, whose traces are counted by themselves: TensorFlow counts those of a method for all of its objects
        # together, and warns of retracing at the fifth loop of a program.
        self.function = tf.function(functools.partial(self._run), autograph=False)

    def run(self, iterator: Any, *, done: int, steps: int) -> CallResult:
        """Runs up to `steps` steps, the first of them number `done` (counted from 0)."""
        self._stop.allow(done + steps)
        with usage_errors_as_raised():
            sums, clock, ended, data_ended, results = self.function(iterator, tf.constant(done, tf.int64))
        sums = sums.numpy()  # The only place where Python waits for the device.
        trace = StepTrace.from_records(
            first_step=done + 1,
            names=self._step.names,
            sums=sums,
            clock=clock.numpy(),
            ended=float(ended),
            added=self._step.added,
        )
        halted = self._halt_on_nonfinite and len(trace) > 0 and not np.isfinite(sums[-1, : self._step.watched]).all()
        return CallResult(trace, plain(results), bool(data_ended) and not halted, bool(halted))

    def _run(self, iterator: Any, first: tf.Tensor) -> Tuple[tf.Tensor, ...]:
        # Loop variables cost time in every step, so `running` is one only where it can become False.
        watches = self._data_may_end or self._halt_on_nonfinite

        def goes_on(number, sums, clock, running=None):
            goes = number < self._stop.limit
            return goes if running is None else tf.logical_and(goes, running)

        def one(number, sums, clock, running=None):
            with tf.control_dependencies([number]):
                asked = tf.timestamp()
            if not self._data_may_end:
                with tf.control_dependencies([asked]):
                    return with_batch(number, sums, clock, asked, next(iterator))
            with tf.control_dependencies([asked]):
                optional = iterator.get_next_as_optional()
            return tf.cond(
                optional.has_value(),
                lambda: with_batch(number, sums, clock, asked, optional.get_value()),
                lambda: (number, sums, clock, tf.constant(False)),
            )

        def with_batch(number, sums, clock, asked, batch):
            with tf.control_dependencies(_components(batch)):
                came = tf.timestamp()
            done = number + 1
            for variable in self._announced:
                variable.assign(done)
            with summary_step(done):
                recorded = self._step(number, batch)
            with tf.control_dependencies([recorded]):  # A step that fails is not counted.
                for counter in self._counters:
                    counter.assign(done)
            after = (done, _append(sums, recorded), _append(clock, tf.stack([asked, came])))
            if not watches:
                return after
            if not self._halt_on_nonfinite:
                return (*after, tf.constant(True))
            return (*after, tf.reduce_all(tf.math.is_finite(recorded[: self._step.watched])))

        state = (first, _empty_list(tf.float32), _empty_list(tf.float64))
        done, sums, clock, *running = tf.while_loop(goes_on, one, (*state, tf.constant(True)) if watches else state)
        with tf.control_dependencies([done]):
            ended = tf.timestamp()
        count = tf.cast(done - first, tf.int32)
        with converting_for_keras():
            results = self._results()
        data_ended = tf.logical_and(self._data_may_end, tf.logical_not(running[0]) if watches else False)
        return (
            _all_of(sums, count, [2 * len(self._step.names)], tf.float32),
            _all_of(clock, count, [2], tf.float64),
            ended,
            data_ended,
            results,
        )


class HostLoop:
    """The same steps one by one from Python, without compiling anything: for breakpoints and prints.

    Arguments and results as for `GraphLoop`. Slow.
    """

    def __init__(
        self,
        *,
        step: GlobalStep,
        stop: StopFlag,
        counters: Sequence[tf.Variable],
        results: Results,
        announced: Sequence[tf.Variable] = (),
        halt_on_nonfinite: bool = False,
        data_may_end: bool = False,
    ):
        del data_may_end  # Python sees the end by itself.
        self._step = step
        self._stop = stop
        self._counters = counters
        self._announced = announced
        self._results = results
        self._halt_on_nonfinite = halt_on_nonfinite
        self.function = None

    def run(self, iterator: Any, *, done: int, steps: int) -> CallResult:
        """As `GraphLoop.run`."""
        sums, clock, data_ended, halted = [], [], False, False
        for number in range(done, done + steps):
            if self._stop.is_set():
                break
            asked = tf.timestamp()
            try:
                batch = next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                data_ended = True
                break
            came = tf.timestamp()
            for variable in self._announced:
                variable.assign(number + 1)
            with summary_step(tf.constant(number + 1, tf.int64)):
                sums.append(self._step(tf.constant(number, tf.int64), batch).numpy())
            for counter in self._counters:
                counter.assign(number + 1)
            clock.append((float(asked), float(came)))
            if self._halt_on_nonfinite and not np.isfinite(sums[-1][: self._step.watched]).all():
                halted = True
                break
        trace = StepTrace.from_records(
            first_step=done + 1,
            names=self._step.names,
            sums=np.reshape(np.array(sums, np.float32), [len(sums), 2 * len(self._step.names)]),
            clock=np.reshape(np.array(clock, np.float64), [len(clock), 2]),
            ended=float(tf.timestamp()),
            added=self._step.added,
        )
        return CallResult(trace, plain(self._results()), data_ended, halted)


def plain(results: Mapping[str, Any]) -> Dict[str, Any]:
    """Tensors as Python floats, and as lists of floats where a metric has more than one value."""
    return {name: np.asarray(value, np.float64).tolist() for name, value in results.items()}


@contextlib.contextmanager
def summary_step(step: tf.Tensor) -> Iterator[None]:
    """Inside, `tf.summary` calls of the user's step are filed under `step`, and under their own name."""
    previous = tf.summary.experimental.get_step()
    tf.summary.experimental.set_step(step)
    try:
        with tf.name_scope(""):  # Else the name of the loop's own operation stands before theirs.
            yield
    finally:
        tf.summary.experimental.set_step(previous)


def default_summary_writer() -> Any:
    """The writer that `tf.summary` calls go to now, or None. A step keeps the one it was traced with."""
    return summary_ops_v2._summary_state.writer


def _components(batch: Any) -> Sequence[tf.Tensor]:
    """The tensors of a batch on every replica."""
    leaves = []
    for leaf in tf.nest.flatten(batch):
        leaves.extend(tf.nest.flatten(tf.distribute.get_strategy().experimental_local_results(leaf)))
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]


# A list that grows by one element a step. TensorArray would do the same through an index, and its gather and stack
# cannot do with none of the elements.


def _empty_list(dtype: tf.DType) -> tf.Tensor:
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=dtype)


def _append(elements: tf.Tensor, element: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListPushBack(input_handle=elements, tensor=element)


def _all_of(elements: tf.Tensor, count: tf.Tensor, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """The elements as one tensor of shape [count, *shape]."""
    return tf.raw_ops.TensorListGather(
        input_handle=elements, indices=tf.range(count), element_shape=tf.constant(shape, tf.int32), element_dtype=dtype
    )
