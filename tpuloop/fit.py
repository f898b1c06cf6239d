"""One call of `TrainLoop.fit`: which steps run when, and who is told."""

import dataclasses
import logging
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

import tensorflow as tf

from tpuloop.checkpoint.store import CheckpointStore
from tpuloop.data.checks import DataError
from tpuloop.data.feed import Feed
from tpuloop.engine.pacing import Pacer, nearest_boundary, next_multiple
from tpuloop.engine.stop import StopFlag
from tpuloop.engine.trace import LastValues, RunningMeans
from tpuloop.engines import StepLoop
from tpuloop.errors import StopRequested
from tpuloop.hooks import Hooks
from tpuloop.schedule import Schedule

logger = logging.getLogger("tpuloop")

# Outputs of a step whose mean over an epoch says nothing; curves have them for every step.
_ONLY_IN_TRACE = ("learning_rate",)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a run stands.

    Attributes:
      step: steps done.
      epoch: epochs done.
      epoch_start: steps done when the running epoch began.
      owed: a stop came before what was due after the last step: an evaluation, the end of the epoch.
      logs: of the last step, while something is owed.
      diverged: the run ended at a loss that is not finite.
    """

    step: int
    epoch: int
    epoch_start: int
    owed: bool = False
    logs: Dict[str, Any] = dataclasses.field(default_factory=dict)
    diverged: bool = False


class Fit:
    """Drives the compiled loop from boundary to boundary.

    Args:
      loop: the TrainLoop.
      hooks: its callbacks.
      schedule: completed with `for_data`.
      feed_from: the training data from a step on.
      engine_for: the compiled loop around the training step, for such data.
      metrics: the Keras metrics that the step updates; asked again for every epoch, since a step may make some.
      means: takes in the step's outputs.
      stop: ends the run at the next step once it is set.
      evaluate: runs one evaluation and returns its logs, or None if a stop was asked for; None without evaluation.
      store: where to save and what to restore from, or None.
    """

    def __init__(
        self,
        *,
        loop: Any,
        hooks: Hooks,
        schedule: Schedule,
        feed_from: Callable[[int], Feed],
        engine_for: Callable[[Feed], StepLoop],
        metrics: Callable[[], Iterable[tf.keras.metrics.Metric]],
        means: Union[RunningMeans, LastValues],
        stop: StopFlag,
        evaluate: Optional[Callable[[], Optional[Dict[str, float]]]],
        store: Optional[CheckpointStore],
    ):
        self._loop = loop
        self._hooks = hooks
        self._schedule = schedule
        self._feed_from = feed_from
        self._engine_for = engine_for
        self._metrics = metrics
        self._stop = stop
        self._evaluate = evaluate
        self._store = store
        self._model: tf.keras.Model = loop.model
        self._pacer = Pacer(loop.settings.steps_per_loop)
        self._means = means
        self._every_batch = self._pacer_yields_to_callbacks()
        self._epoch = 0
        self._epoch_start = 0  # Steps done when the epoch began.
        self._epoch_open = False
        self._logs: Dict[str, float] = {}
        self._val_logs: Dict[str, float] = {}
        self._saved: Optional[Dict[str, Any]] = None  # The record of the last checkpoint.
        self._evaluated_step: Optional[int] = None
        self._owed = False  # As in Place.
        self._diverged = False
        self._ended_by_itself = False  # Data that ended or a callback that stopped it, before the last step.

    def run(self) -> tf.keras.callbacks.History:
        """The whole run; see `TrainLoop.fit` for its order."""
        self._restore()
        schedule = self._schedule
        if self._is_finished():
            logger.warning("nothing to do: the run has ended at step %d", self._step)
            self._model.history = self._hooks.history
            self._hooks.history.on_train_begin()
            self._stop.run_ended(stopped=False)
            return self._hooks.history
        if self._store is not None:
            self._store.prepare()
        self._stop.run_begins()
        self._model.stop_training = False
        failed, complete = True, False
        try:
            feed = self._feed_from(self._position)
            params = {
                "verbose": 0,
                "epochs": schedule.epochs or 1,
                "steps": schedule.steps_per_epoch,
                "total_steps": schedule.steps,
                "global_batch": feed.global_batch,
            }
            self._model.history = self._hooks.history
            self._hooks.attach(self._loop, self._model, params)
            self._hooks.call("on_train_begin", {})
            try:
                complete = self._train(feed)
            except StopRequested:  # By an evaluation that a callback made, which the request ended as well.
                if not self._stop.is_set():
                    raise
            if complete and isinstance(self._model.optimizer, tf.keras.optimizers.experimental.Optimizer):
                # Puts the averages of a moving average, where it keeps one, in the place of the weights, as in Keras.
                self._model.optimizer.finalize_variable_values(self._model.trainable_variables)
            if self._diverged:
                logger.warning("the loss was not finite at step %d: this state is not saved", self._step)
            self._save()
            self._hooks.call("on_train_end", self._logs)
            failed = False
        finally:
            self._loop.place = self._place()
            # A request that comes when all is done, or with an error, has nothing left to end.
            self._stop.run_ended(stopped=not failed and not complete)
            self._hooks.close(failed=failed)
        return self._hooks.history

    def _place(self) -> Place:
        owed = self._owed or self._epoch_open and (self._ended_by_itself or self._step == self._schedule.steps)
        logs = self._logs if owed else {}
        return Place(self._step, self._epoch, self._epoch_start, owed, logs, self._diverged)

    def _pacer_yields_to_callbacks(self) -> bool:
        """Whether each step is a call of its own, since a callback of the user's wants to see every batch."""
        names = self._hooks.sees_every_batch
        if not names:
            return False
        steps_per_loop = self._loop.settings.steps_per_loop
        listed = ", ".join(names)
        if steps_per_loop == "auto":
            logger.warning(
                "%s has hooks for every batch, so each step is a call of its own, and slower: set steps_per_loop to "
                "call them once in so many steps, or derive from tpuloop.Callback, which names its steps",
                listed,
            )
            return True
        if steps_per_loop > 1:
            logger.warning(
                "%s has hooks for every batch, which are called once in up to %d steps, as steps_per_loop says",
                listed,
                steps_per_loop,
            )
        return False

    @property
    def _step(self) -> int:
        return int(self._loop.step.numpy())

    @property
    def _target(self) -> List[Optional[int]]:
        """What the run was asked to reach."""
        return [self._schedule.steps, self._schedule.epochs]

    @property
    def _position(self) -> int:
        """Batches to pass over in the data: those of the run, or of the pass where each pass starts the data anew."""
        return self._step - self._epoch_start if self._ends_with_pass else self._step

    @property
    def _ends_with_pass(self) -> bool:
        """Whether an epoch ends when the data does, at a step nobody knows beforehand."""
        return self._schedule.by_pass and self._schedule.steps_per_epoch is None

    def _restore(self) -> None:
        """Takes up the newest checkpoint, or the place where an earlier `fit` of the same loop ended."""
        record = self._store.restore() if self._store is not None else None
        place = self._loop.place
        if record is not None:
            self._saved = record
            names = [field.name for field in dataclasses.fields(Place) if field.name in record]
            place = Place(**{name: record[name] for name in names})
            logger.info("restored step %d", record["step"])
        per_epoch = self._schedule.steps_per_epoch
        if place is not None and place.step == self._step and place.owed:
            self._owed, self._logs = True, dict(place.logs)
            self._epoch, self._epoch_start = place.epoch, place.epoch_start
        elif per_epoch is not None:
            self._epoch = self._step // per_epoch
            self._epoch_start = self._epoch * per_epoch
        elif place is not None and place.step == self._step:
            self._epoch, self._epoch_start = place.epoch, place.epoch_start

    def _is_finished(self) -> bool:
        if self._owed:
            return False
        if self._saved is not None and self._saved["finished_target"] == self._target:
            return True
        if self._schedule.steps is not None:
            return self._step >= self._schedule.steps
        return self._epoch >= (self._schedule.epochs or 1)

    def _train(self, feed: Feed) -> bool:
        """Runs the steps; returns whether all is done, or False where a stop was asked for before that."""
        engine = self._engine_for(feed)
        self._model.train_tf_function = engine.function  # Whose graph Keras's TensorBoard writes.
        iterator = self._loop.iterator(feed)
        feed_end = None if feed.steps is None else self._step + feed.steps
        self._model._train_counter.assign(self._step)
        if self._owed:
            self._begin_epoch()
            self._act_at(self._step)
        while True:
            step = self._step
            if any(end is not None and step >= end for end in (feed_end, self._schedule.steps)):
                break
            if self._stop.is_set():
                return False
            if not self._epoch_open:
                self._begin_epoch()
            self._hooks.on_train_batch_begin(step - self._epoch_start, step=step)
            try:
                with feed.naming_faults(lambda: self._step):
                    call = engine.run(iterator, done=step, steps=self._distance(step, feed_end))
            except DataError:
                self._save()  # The steps before are not lost: the run goes on from here when the data is mended.
                raise
            self._diverged = call.halted
            if len(call.trace):
                self._after_call(call)
            if self._stop.is_set():
                return False
            if call.data_ended:
                if not self._next_pass():
                    break
                iterator = self._loop.iterator(self._feed_from(0))
            elif self._model.stop_training or self._diverged:
                break
        target = self._schedule.steps
        if target is not None and self._step < target and not self._model.stop_training:
            logger.warning("the data ended at step %d, before step %d", self._step, target)
        self._ended_by_itself = target is None or self._step < target
        if self._epoch_open:
            self._end_epoch()
        return not self._epoch_open

    def _distance(self, step: int, feed_end: Optional[int]) -> int:
        """How many steps the next compiled call may run."""
        schedule, settings = self._schedule, self._loop.settings
        edges: List[Optional[int]] = [schedule.steps, feed_end, *self._hooks.boundaries(step)]
        if self._every_batch:
            edges.append(step + 1)
        if schedule.steps_per_epoch is not None:
            edges.append(self._epoch_start + schedule.steps_per_epoch)
        if self._evaluate is not None and schedule.eval_every is not None:
            edges.append(next_multiple(step, schedule.eval_every))
        if self._store is not None and settings.save_every is not None:
            edges.append(next_multiple(step, settings.save_every))
        return nearest_boundary(step, edges, last=step + self._pacer.steps()) - step

    def _after_call(self, call: Any) -> None:
        trace = call.trace
        step = trace.last_step
        self._pacer.measured(trace.ended - trace.asked)
        if self._store is not None:
            self._store.name_unused()
        self._means.add(trace)
        means = {name: value for name, value in self._means.result().items() if name not in _ONLY_IN_TRACE}
        self._logs = {**means, **call.results}
        self._model._train_counter.assign(step)
        self._owed = True
        self._hooks.on_steps_end(trace)
        self._hooks.on_train_batch_end(step - self._epoch_start - 1, self._logs, trace=trace)
        if not self._stop.is_set():
            self._act_at(step)

    def _act_at(self, step: int) -> None:
        """Evaluates and ends the epoch, if that is due after `step`; saves, if that is. A stop leaves it owed."""
        every = self._schedule.eval_every
        if every is not None and (step % every == 0 or step == self._schedule.steps) and not self._run_evaluation():
            return
        if self._schedule.steps_per_epoch == step - self._epoch_start:
            self._end_epoch()
        if self._stop.is_set():
            return
        self._owed = False
        save_every = self._loop.settings.save_every
        # The last step is saved when all that is due after it is done.
        if save_every is not None and step % save_every == 0 and step != self._schedule.steps:
            self._save()

    def _begin_epoch(self) -> None:
        self._epoch_open = True
        self._means.reset()
        self._val_logs = {}
        for metric in self._metrics():
            metric.reset_state()
        self._hooks.call("on_epoch_begin", self._epoch, {})

    def _end_epoch(self) -> None:
        if (self._schedule.eval_every is None or self._ended_by_itself) and not self._run_evaluation():
            return
        self._logs = {**self._logs, **self._val_logs}
        self._hooks.call("on_epoch_end", self._epoch, self._logs)
        self._epoch_open = False
        self._epoch += 1
        self._epoch_start = self._step

    def _run_evaluation(self) -> bool:
        """Evaluates, unless that was done at this step or there is nothing to evaluate on; False if it was stopped."""
        if self._evaluate is None or self._evaluated_step == self._step:
            return True
        try:
            logs = self._evaluate()
        except Exception:
            # The fault is in the evaluation: the steps done before are not lost, and it is due again.
            self._owed = True
            self._save()
            raise
        if logs is None:
            return False
        self._evaluated_step = self._step
        self._val_logs = {f"val_{name}": value for name, value in logs.items()}
        return True

    def _next_pass(self) -> bool:
        """After data of unknown length has ended: whether the run goes on with another pass."""
        if self._step == self._epoch_start:
            if self._step == 0:
                raise DataError("the data is empty: it gave no batch")
            logger.warning("the data gave no batch after step %d: it seems that it can be read only once", self._step)
            self._epoch_open = False
            return False
        if not self._ends_with_pass:
            return False
        self._end_epoch()
        more = self._schedule.epochs is None or self._epoch < self._schedule.epochs
        return more and not self._model.stop_training and not self._stop.is_set()

    def _save(self) -> None:
        if self._store is None or self._diverged:
            return
        settings = self._loop.settings
        record = {
            **dataclasses.asdict(self._place()),
            "finished_target": self._target if self._ended_by_itself else None,
            "seed": settings.seed,
            "replicas": self._loop.runtime.replicas,
            "versions": {"tensorflow": tf.__version__},
        }
        if record != self._saved:
            self._hooks.before_save()
            self._loop.agree_on_statistics()
            self._store.save(self._step, record)
            self._saved = record
