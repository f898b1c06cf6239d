"""The training loop that research code subclasses."""

import contextlib
import functools
import logging
import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

import numpy as np
import tensorflow as tf

from tpuloop.checkpoint.store import CheckpointStore
from tpuloop.counts import check_count
from tpuloop.data.arrays import without_none
from tpuloop.data.checks import DataError, check_fits
from tpuloop.data.feed import Feed, FeedRules, eval_feed, resolved, train_feed
from tpuloop.engine import step as step_module
from tpuloop.engine.accumulate import accumulated_update
from tpuloop.engine.autograph import converted
from tpuloop.engine.average import WeightAverages, weights_to_average
from tpuloop.engine.compiled import Targets, build_compiled, compiled_loss, update_compiled_metrics
from tpuloop.engine.host_variable import host_variable
from tpuloop.engine.learning_rate import learning_rate_schedule
from tpuloop.engine.mean import Mean, SumOfMeans, as_loss, parts_of
from tpuloop.engine.metrics import distinct, results_by_name
from tpuloop.engine.nested import layers_within
from tpuloop.engine.optimize import create_weights, minimize
from tpuloop.engine.randomness import current_seed, seed_random_layers
from tpuloop.engine.replica_statistics import agree
from tpuloop.engine.stop import StopFlag
from tpuloop.engine.trace import LastValues, RunningMeans
from tpuloop.engines import Engines, StepLoop
from tpuloop.errors import StopRequested, UsageError
from tpuloop.evaluation import run_evaluation
from tpuloop.fit import Fit, Place
from tpuloop.hooks import CallbacksLike, Hooks
from tpuloop.runtime import Runtime, check_tensorflow_version
from tpuloop.schedule import Schedule
from tpuloop.settings import LoopSettings

logger = logging.getLogger("tpuloop")

Loss = Union[Mean, SumOfMeans, tf.Tensor]
LossAndMeans = Union[Loss, Tuple[Loss, Dict[str, Mean]]]


class TrainLoop(tf.Module):
    """Trains a Keras model in a compiled loop of many steps, the same on one replica or many.

    Use it as it is, with a compiled model or a plain one:

    ```python
    loop = TrainLoop(model)  # compiled: optimizer, loss and metrics are the model's
    loop = TrainLoop(model, optimizer="adam", loss="mse", metrics=["mae"])
    history = loop.fit((x, y), epochs=3, batch_size=64)
    ```

    or subclass it, and override the least that is enough: `forward_loss` for a loss of your own, `train_step` for
    anything else, with `eval_step` and `predict_step` likewise. These run in replica context, on the replica's part of
    the batch, and are compiled with AutoGraph.

    Models, optimizers, metrics and variables that are attributes of the loop are saved and restored with it.

    Args:
      model: a Keras model, built under `runtime.scope()`.
      optimizer, loss, metrics, weighted_metrics, loss_weights: as in `Model.compile`, which is called with them if
        any is given; what is not given stays as the model was compiled. A loss of Keras's keeps Keras's convention, the
        average over examples.
      runtime: the devices; those the model was built for, if None.
      workdir: a run's folder. With one, `fit` restores the newest checkpoint in it and saves there.
      settings: how the loop runs.

    Raises:
      ValueError: for a model that was built outside the runtime's scope, or settings that cannot go together.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        *,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        loss_weights: Any = None,
        runtime: Optional[Runtime] = None,
        workdir: Optional[str] = None,
        settings: Optional[LoopSettings] = None,
    ):
        super().__init__(name="train_loop")
        check_tensorflow_version()
        if not isinstance(model, tf.keras.Model):
            raise UsageError(f"TrainLoop takes a Keras model; it was given {model!r}")
        self.model = model
        self.runtime = Runtime.of_model(model) if runtime is None else runtime
        self.settings = LoopSettings() if settings is None else settings
        self.workdir = workdir
        _check_built_in_scope([model], self.runtime)
        compiled = {
            "optimizer": optimizer,
            "loss": loss,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
            "loss_weights": loss_weights,
        }
        given = {name: value for name, value in compiled.items() if value is not None}
        if given:
            with self.runtime.scope():
                model.compile(**{**_compiled_with(model), **given})
        if self.settings.clip_norm is not None and self._runs_keras_step("train_step"):
            raise UsageError(
                f"clip_norm={self.settings.clip_norm} has no effect on the model's own train_step: clip there, or give "
                "the optimizer global_clipnorm"
            )
        if self.settings.accumulate_steps > 1 and not self._runs_default_train_step():
            raise UsageError(
                f"accumulate_steps={self.settings.accumulate_steps} has no effect on a train_step of your own: "
                "accumulate there, or override forward_loss instead"
            )
        self.step = host_variable(0, name="step", dtype=tf.int64)
        self.weight_averages: Optional[WeightAverages] = None  # With settings.ema_decay, once there are weights.
        self.place: Optional[Place] = None  # Where the last `fit` ended.
        self._will_evaluate = False  # In the run that is being traced, with the loop's own evaluation.
        self._traced: Set[str] = set()  # Steps that were called once, at least in a trace.
        self._stop = StopFlag()
        self._engines = Engines(strategy=self.runtime.strategy, settings=self.settings, stop=self._stop)

    # What a subclass may override. Replica context, traced once.

    def forward_loss(self, batch: Any, *, training: bool) -> LossAndMeans:
        """The loss of a replica's batch, and perhaps other values to report.

        The default runs the model on `x` of `(x, y, sample_weight)`, takes the losses it was compiled with, and
        updates its metrics. An override need not think of replicas, padding or regularisers: `model.losses` is added
        once by the loop, and padded rows of an evaluation are left out.

        Args:
          batch: the replica's part of what the data gives, nested tensors of shape [batch, ...].
          training: False in evaluation.

        Returns:
          A loss with a value per example (or per token): `Mean(values, weights)`, or the values alone; or
          `SumOfMeans(name=Mean(...), ...)` where parts of it are averaged over different elements. Or a pair of that
          and a dict of further Means to report beside the loss.
        """
        x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(batch)
        targets = Targets(y, self.model(x, training=training), sample_weight)
        loss, by_output = compiled_loss(self.model, targets)
        update_compiled_metrics(self.model, targets)
        return loss, by_output

    def train_step(self, batch: Any) -> step_module.Outputs:
        """One update. The default follows the gradient of `forward_loss`; override it for anything else.

        Returns:
          Named values: `Mean`s, which are averaged over all replicas, or tensors, which count like `Mean(tensor)`.
          The first one is watched where a run shall end on NaN; it is the loss by custom.
        """
        if self._runs_keras_step("train_step"):
            return _as_float32(converted(self.model.train_step)(batch))
        outputs: Dict[str, Any] = {}
        schedule = learning_rate_schedule(self.optimizer)
        if schedule is not None:
            outputs["learning_rate"] = schedule(self.optimizer.iterations)
        if self.settings.accumulate_steps > 1:
            accumulated, norm = accumulated_update(
                batch,
                parts=self.settings.accumulate_steps,
                forward=lambda part: self._loss_and_means(part, training=True),
                variables=self.model.trainable_variables,
                optimizer=self.optimizer,
                clip_norm=self.settings.clip_norm,
            )
            outputs = {**accumulated, **outputs}
        else:
            with tf.GradientTape() as tape:
                loss, means = self._loss_and_means(batch, training=True)
            norm = self.minimize(loss, tape=tape, variables=self.model.trainable_variables)
            outputs = {"loss": loss, **means, **outputs}
        if norm is not None:
            outputs["gradient_norm"] = norm
        return outputs

    def eval_step(self, batch: Any) -> step_module.Outputs:
        """One batch of an evaluation. The default reports `forward_loss` without training.

        Returns:
          Named `Mean`s with one value per example; the loop leaves padded rows out. A Keras metric updated here must
          be given `sample_weight=self.example_mask()`.
        """
        if self._runs_keras_step("test_step"):
            return _as_float32(converted(self.model.test_step)(batch))
        loss, means = self._loss_and_means(batch, training=False)
        return {"loss": loss, **means}

    def predict_step(self, batch: Any) -> Any:
        """The outputs for a batch, nested tensors of shape [batch, ...]; rows that are padding are cut off later."""
        if _overrides(self.model, "predict_step"):
            return converted(self.model.predict_step)(batch)
        return self.model(tf.keras.utils.unpack_x_y_sample_weight(batch)[0], training=False)

    # What steps may call.

    def minimize(
        self,
        loss: Loss,
        *,
        tape: tf.GradientTape,
        variables: List[tf.Variable],
        optimizer: Optional[tf.keras.optimizers.Optimizer] = None,
    ) -> Optional[tf.Tensor]:
        """One update of `variables` with the gradient of the loss's global mean. Replica context, in `train_step`.

        Gradients are summed over the replicas, then clipped by `settings.clip_norm`, then applied; loss scaling is
        taken care of.

        Args:
          loss: a `Mean` or `SumOfMeans` made while `tape` recorded, or values to be averaged.
          optimizer: the model's, if None.

        Returns:
          The gradient's global norm where `settings.clip_norm` is set, else None.
        """
        return minimize(
            as_loss(loss),
            tape=tape,
            variables=variables,
            optimizer=self.optimizer if optimizer is None else optimizer,
            clip_norm=self.settings.clip_norm,
        )

    def step_seed(self, name: str) -> tf.Tensor:
        """A seed of shape [2] for `tf.random.stateless_*`, fixed by (seed, step, replica, name, how often asked)."""
        return current_seed().draw_named(name)

    def example_mask(self) -> Optional[tf.Tensor]:
        """In `eval_step`, 1 for each row that is an example and 0 for padding, float32 of shape [batch]; else None."""
        return step_module.example_mask()

    # What programs call.

    @property
    def optimizer(self) -> tf.keras.optimizers.Optimizer:
        """The model's optimizer.

        Raises:
          ValueError: where it has none.
        """
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is None:
            raise UsageError(
                f"the model {self.model.name!r} has no optimizer: compile it, or give TrainLoop(model, optimizer=...)"
            )
        return optimizer

    def fit(
        self,
        data: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: Optional[int] = None,
        steps: Optional[int] = None,
        epochs: Optional[int] = None,
        steps_per_epoch: Optional[int] = None,
        eval_data: Any = None,
        eval_every: Optional[int] = None,
        eval_steps: Optional[int] = None,
        validation_data: Any = None,
        class_weight: Optional[Dict[int, float]] = None,
        callbacks: CallbacksLike = (),
        verbose: int = 0,
    ) -> tf.keras.callbacks.History:
        """Trains until the run has done `steps` steps or `epochs` epochs, counted from its very start.

        ```
        restore the newest committed checkpoint, if there is a workdir and one in it
        on_train_begin
        while steps are left and nobody asked to stop:
            on_epoch_begin, if one begins
            k = distance to the nearest boundary    # steps_per_loop, epoch end, evaluation, save, a callback's step
            on_train_batch_begin(batch in the epoch)
            run k steps in one compiled call
            on_steps_end(trace), on_train_batch_end(last batch, logs)
            save, evaluate, on_epoch_end, what is due
        save; on_train_end
        ```

        With `settings.ema_decay`, evaluations use the averages of the weights, see `averaged_weights`. Callbacks see
        them in their test hooks; in all others, `on_epoch_end` among them, the model has the weights that are trained,
        and these are what `ModelCheckpoint` saves.

        Args:
          data: a source, arrays, a `tf.data.Dataset` of GLOBAL batches, or a function that returns one of these.
            `fit(x, y, sample_weight)` works as in Keras.
          batch_size: the global batch for sources and arrays; 32 if None.
          steps: the step to reach. Data that ends earlier ends the run.
          epochs: the epoch to reach; 1 if `steps` is None too.
          steps_per_epoch: the length of an epoch for callbacks and History. By default one pass over the data; where
            its length is not known, an epoch is `eval_every` steps, or the whole run.
          eval_data: evaluated at the end of every epoch, or every `eval_every` steps; its logs have the prefix "val_"
            and are in the logs of the epoch's end.
          eval_steps: batches of one evaluation; all if None.
          validation_data: Keras's name for `eval_data`.
          class_weight: weight of each class, 0 to n - 1, multiplied into the sample weights.
          callbacks: Keras's, or `tpuloop.Callback`s; one alone, or None for none, as in Keras.
          verbose: 0, as for Keras; the loop prints nothing by itself.

        Returns:
          Keras's History; the values of an epoch are global means over its steps.

        Raises:
          DataError, ValueError: for data and arguments that do not fit, before anything is compiled.
          CheckpointError: where the workdir has checkpoints and none can be used, or one cannot be written.
        """
        _check_verbose(verbose)
        if self._stop.in_run:
            raise UsageError("fit was called while fit of the same loop runs, by one of its callbacks perhaps")
        data = resolved(without_none(data, y, sample_weight))
        if validation_data is not None:
            if eval_data is not None:
                raise UsageError("eval_data and validation_data are two names for one thing: give one of them")
            eval_data = validation_data
        schedule = Schedule(steps=steps, epochs=epochs, steps_per_epoch=steps_per_epoch, eval_every=eval_every)
        hooks = Hooks(callbacks)
        rules = self._feed_rules()
        evaluation = None
        if eval_data is not None:
            eval_data = resolved(eval_data)
            own_batches = isinstance(eval_data, tf.data.Dataset)
            evaluation = self._eval_feed(eval_data, None if own_batches else batch_size, eval_steps)
        elif eval_every is not None or eval_steps is not None:
            raise UsageError("eval_every and eval_steps need eval_data")

        @functools.lru_cache(maxsize=1)  # A run that begins at step 0 asks twice for the same.
        def feed_from(step: int) -> Feed:
            return train_feed(
                data,
                rules,
                batch_size=batch_size,
                seed=self.settings.seed,
                step=step,
                by_pass=schedule.by_pass,
                steps_per_epoch=steps_per_epoch,
                class_weight=class_weight,
            )

        feed = feed_from(0)
        schedule = schedule.for_data(feed)
        self._will_evaluate = evaluation is not None and type(self).eval_step is TrainLoop.eval_step
        with self.runtime.scope():
            self._build(feed, "train_step")
            if self.weight_averages is not None and not self.step.numpy():
                self.weight_averages.start()
            run = Fit(
                loop=self,
                hooks=hooks,
                schedule=schedule,
                feed_from=feed_from,
                engine_for=lambda feed: self._training_engine(feed, hooks),
                metrics=lambda: self._updated_metrics(step="train_step"),
                means=self._summary_of("train_step"),
                stop=self._stop,
                evaluate=None if evaluation is None else lambda: self._run_evaluation(evaluation, hooks),
                store=self.checkpoints() if self.workdir else None,
            )
            return run.run()

    def evaluate(
        self,
        data: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: Optional[int] = None,
        steps: Optional[int] = None,
        callbacks: CallbacksLike = (),
        verbose: int = 0,
    ) -> Dict[str, float]:
        """The loss and metrics over all examples of `data`, each counted once at any batch size and replica count.

        Args:
          data, y, sample_weight, batch_size: as in `fit`.
          steps: batches to take; all if None.
          callbacks, verbose: as in `fit`.

        Raises:
          DataError: for data that cannot be used, is empty, or never ends while `steps` is None.
          StopRequested: where `request_stop` was called while it ran.
        """
        _check_verbose(verbose)
        feed = self._eval_feed(without_none(data, y, sample_weight), batch_size, steps)
        hooks = Hooks(callbacks)
        self._stop.forget_outside_runs()
        logs = None
        try:
            hooks.attach(self, self.model, {"verbose": 0, "epochs": 1, "steps": feed.steps})
            with self.runtime.scope():
                self._build(feed, "eval_step")
                logs = self._run_evaluation(feed, hooks)
        finally:
            self._stop.forget_outside_runs()
            hooks.close(failed=logs is None)
        if logs is None:
            raise StopRequested("the evaluation was stopped by request_stop() before its end")
        return logs

    def predict(
        self, data: Any, *, batch_size: Optional[int] = None, steps: Optional[int] = None, verbose: int = 0
    ) -> Any:
        """The model's outputs for all examples of `data` in their order, as NumPy.

        Args:
          data: as in `fit`; of a tuple `(x, y)` the model gets `x`.
          batch_size: as in `fit`.
          steps: batches to take; all if None.
          verbose: as in `fit`.
        """
        _check_verbose(verbose)
        feed = self._eval_feed(without_none(data, None, None), batch_size, steps)
        with self.runtime.scope():
            self._build(feed, "predict_step")
            engine = self._engines.predicting(
                replica_step=self._overridable("predict_step"), split=self.splits_on_host(feed)
            )
            self.agree_on_statistics()
            with feed.naming_faults(), self.averaged_weights():
                batches = list(engine.outputs(self.iterator(feed)))
        if not batches:
            raise DataError("the data is empty: it gave no batch")
        return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *batches)

    def restore(self) -> Optional[int]:
        """Takes up the newest checkpoint in the workdir without training, for `evaluate`, `predict` or the model alone.

        A model that is not built yet gets its values when it is. With `settings.ema_decay`, the model itself has the
        weights that were trained; their averages are in it inside `averaged_weights`.

        Returns:
          The step; None where there is no checkpoint.

        Raises:
          CheckpointError: where there are checkpoints and none is valid, or the newest does not fit.
        """
        with self.runtime.scope():
            if all(layer.built for layer in self._layers()):
                self._average_weights()
            record = self.checkpoints().restore(to_train=False)
        return None if record is None else int(record["step"])

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Inside, the model's weights are their moving averages, which `evaluate` and `predict` use by themselves.

        For what reads the model in another way, such as `model.save`. It changes nothing without `settings.ema_decay`
        or before the first step. The trained weights are put back at the end, after an error as well; a training step
        or a checkpoint must not be made inside.
        """
        if self.weight_averages is None or not self.step.numpy():
            yield
            return
        with self.runtime.scope(), self.weight_averages.in_place_of_weights():
            yield

    def request_stop(self) -> None:
        """Ends `fit` after the step it is in. Safe from any thread and while a compiled call runs."""
        self._stop.set()

    @property
    def stop_requested(self) -> bool:
        """Whether `request_stop` ended the last `fit`, or will end this one."""
        return self._stop.ended_run or self._stop.is_set()

    def checkpoints(self) -> CheckpointStore:
        """The checkpoints of this loop in its workdir."""
        if not self.workdir:
            raise UsageError("the loop has no workdir: give TrainLoop(model, workdir=...)")
        return CheckpointStore(
            directory=os.path.join(self.workdir, "checkpoints"), objects={"loop": self}, keep=self.settings.keep
        )

    # What the loop does for itself.

    def agree_on_statistics(self) -> None:
        """Gives every replica the mean of moving statistics, as a restart would: before an evaluation and a save."""
        if self.runtime.replicas > 1:
            held = {id(variable): variable for layer in layers_within(self) for variable in layer.variables}
            averages = [] if self.weight_averages is None else self.weight_averages.values
            agree([*held.values(), *averages])

    def iterator(self, feed: Feed) -> Any:
        """An iterator over the feed, as the loop's steps take its batches."""
        return feed.iterator(self.runtime.strategy, whole=self.splits_on_host(feed))

    def splits_on_host(self, feed: Feed) -> bool:
        """Whether the steps slice the feed's batches themselves."""
        return feed.splits_on_host(self.runtime.strategy, shared_memory=self.runtime.shared_memory)

    def _loss_and_means(self, batch: Any, *, training: bool) -> Tuple[Union[Mean, SumOfMeans], Dict[str, Mean]]:
        result = self._overridable("forward_loss")(batch, training=training)
        loss, means = result if isinstance(result, tuple) else (result, {})
        loss = as_loss(loss)
        if training and any(part.values.shape.rank == 0 for part in parts_of(loss)) and self._will_evaluate:
            raise UsageError(
                "forward_loss returned one scalar for the whole batch, which an evaluation cannot average exactly: "
                "return one value per example, of shape [batch], alone or as Mean(values)"
            )
        if self.model.losses:
            dtype = parts_of(loss)[0].values.dtype
            loss = loss.plus(tf.add_n([tf.cast(value, dtype) for value in self.model.losses]))
        return loss, means

    def _overridable(self, name: str) -> Callable[..., Any]:
        """The method of that name, converted by AutoGraph where somebody else wrote it."""
        method = getattr(self, name)
        return method if getattr(method, "__func__", None) is getattr(TrainLoop, name) else converted(method)

    def _runs_keras_step(self, name: str) -> bool:
        """Whether the Keras model's own "train_step" or "test_step" runs: it has one, and the loop's is TrainLoop's."""
        ours = {"train_step": "train_step", "test_step": "eval_step"}[name]
        replaced = any(getattr(type(self), part) is not getattr(TrainLoop, part) for part in (ours, "forward_loss"))
        return _overrides(self.model, name) and not replaced

    def _summary_of(self, name: str) -> Union[RunningMeans, LastValues]:
        """How the outputs of many steps become logs: Keras's own steps return values that are means already."""
        return LastValues() if self._runs_keras_step(name) else RunningMeans()

    def _runs_default_train_step(self) -> bool:
        return type(self).train_step is TrainLoop.train_step and not self._runs_keras_step("train_step")

    def _updated_metrics(self, *, step: str) -> List[tf.keras.metrics.Metric]:
        """The Keras metrics that a step updates: the model's, and those that are attributes of the loop."""
        # The loss is a Mean of ours, unless the model's own step updates Keras's metric of it.
        losses = () if self._runs_keras_step(step) else _compiled_loss_metrics(self.model)
        own = [layer for layer in layers_within(self) if isinstance(layer, tf.keras.metrics.Metric)]
        return distinct([*self.model.metrics, *own], but=losses)

    def _metric_results(self, shown: List[str], *, step: str) -> Dict[str, tf.Tensor]:
        """The metrics' results that join the logs. Called once the step was traced, which may have made metrics."""
        results = results_by_name(self._updated_metrics(step=step))
        if not self._runs_keras_step(step):
            return results
        # On one replica the values the step returned are global. On more, each returned the result of its part.
        return {name: results[name] for name in results if self.runtime.replicas > 1 and name in shown}

    def _feed_rules(self) -> FeedRules:
        inputs = getattr(self.model, "inputs", None)
        strings = not self._uses_compiled_forward() or not inputs or any(i.dtype == tf.string for i in inputs)
        return FeedRules(
            replicas=self.runtime.replicas,
            static_shapes=self.runtime.static_shapes,
            strings=strings and not self.runtime.static_shapes,
        )

    def _uses_compiled_forward(self) -> bool:
        return self._runs_default_train_step() and type(self).forward_loss is TrainLoop.forward_loss

    def _eval_feed(self, data: Any, batch_size: Optional[int], steps: Optional[int]) -> Feed:
        if steps is not None:
            steps = check_count("evaluation steps", steps, or_else=", or None")
        pad = not self._runs_keras_step("test_step")
        return eval_feed(data, self._feed_rules(), batch_size=batch_size, steps=steps, pad=pad)

    def _build(self, feed: Feed, step: str) -> None:
        """Creates what the step needs before it is traced: variables, losses, metrics, slots, random streams."""
        self._engines.compiled_as(self.model)
        _check_built_in_scope(layers_within(self), self.runtime)
        if self._uses_compiled_forward() and step != "predict_step":
            batch_spec = feed.dataset.element_spec if step == "train_step" else feed.dataset.element_spec[0]
            if isinstance(batch_spec, tuple) and len(batch_spec) > 3:
                raise DataError(
                    f"a batch has {len(batch_spec)} parts, and the model takes (x, y, sample_weight): "
                    "leave out the others, or override forward_loss"
                )
            check_fits(
                batch_spec, self.model, what="the training data" if step == "train_step" else "the evaluation data"
            )
            x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(batch_spec)
            build_compiled(self.model, x, y, sample_weight)
        predicts = type(self).predict_step is TrainLoop.predict_step and not _overrides(self.model, "predict_step")
        if step == "predict_step" and predicts:
            check_fits(feed.dataset.element_spec[0], self.model, what="the data", labels=False)
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None:
            create_weights(optimizer, self.model.trainable_variables if self.model.built else [])
        if step not in self._traced and not all(layer.built for layer in self._layers()):
            # Some layers make others, random ones perhaps, when they are called first: these need a stream of their own
            # before the first step that counts.
            self._engines.trace(
                self._overridable(step), feed, split=self.splits_on_host(feed), masked=step != "train_step"
            )
            if optimizer is not None:
                create_weights(optimizer, self.model.trainable_variables)
        self._traced.add(step)
        self._average_weights()
        seed_random_layers(layers_within(self))

    def _layers(self) -> List[tf.keras.layers.Layer]:
        return [layer for layer in layers_within(self) if not isinstance(layer, tf.keras.metrics.Metric)]

    def _average_weights(self) -> None:
        """Makes the averages of the weights that there are, if they are wanted. In the strategy's scope."""
        if self.settings.ema_decay is None:
            return
        weights, known = weights_to_average(self.model), self.weight_averages
        if known is None or not known.are_of(weights):
            self.weight_averages = WeightAverages(weights, decay=self.settings.ema_decay, known=known)

    def _update_averages(self, steps_done: tf.Tensor) -> None:
        if self.weight_averages is not None:
            self.weight_averages.update(steps_done)

    def _training_engine(self, feed: Feed, hooks: Hooks) -> StepLoop:
        return self._engines.stepping(
            "train",
            replica_step=self._overridable("train_step"),
            feed=feed,
            split=self.splits_on_host(feed),
            results=lambda shown: self._metric_results(shown, step="train_step"),
            counters=[self.step],
            announced=[self.model._train_counter] if hooks.counts_every_step else [],
            halt_on_nonfinite=hooks.halts_on_nonfinite,
            after=None if self.settings.ema_decay is None else self._update_averages,
        )

    def _run_evaluation(self, feed: Feed, hooks: Hooks) -> Optional[Dict[str, float]]:
        own = self._runs_keras_step("test_step")
        eval_step = self._overridable("eval_step")
        engine = self._engines.stepping(
            "eval",
            replica_step=(lambda batch_and_mask: eval_step(batch_and_mask[0])) if own else eval_step,
            feed=feed,
            split=self.splits_on_host(feed),
            results=lambda shown: self._metric_results(shown, step="test_step"),
            masked=not own,
        )
        self.agree_on_statistics()
        with self.averaged_weights():
            return run_evaluation(
                engine,
                feed=feed,
                iterator=self.iterator(feed),
                hooks=hooks,
                metrics=self._updated_metrics(step="test_step"),
                means=self._summary_of("test_step"),
                stop=self._stop,
                strategy=self.runtime.strategy,
            )


def _check_verbose(verbose: int) -> None:
    if verbose:
        raise UsageError(f"verbose={verbose!r}: the loop prints nothing by itself; give callbacks=[tpuloop.Progress()]")


def _as_float32(logs: Dict[str, Any]) -> Dict[str, tf.Tensor]:
    return {name: tf.cast(value, tf.float32) for name, value in logs.items()}


def _overrides(model: tf.keras.Model, method: str) -> bool:
    return getattr(type(model), method) is not getattr(tf.keras.Model, method)


def _compiled_with(model: tf.keras.Model) -> Dict[str, Any]:
    """The arguments of the model's last `compile`."""
    if not model._is_compiled:
        return {}
    arguments = model._get_compile_args(user_metrics=True)
    return {**arguments, "run_eagerly": model._run_eagerly, "jit_compile": model._jit_compile}


def _compiled_loss_metrics(model: tf.keras.Model) -> List[tf.keras.metrics.Metric]:
    return model.compiled_loss.metrics if getattr(model, "compiled_loss", None) is not None else []


def _check_built_in_scope(layers: Iterable[tf.keras.layers.Layer], runtime: Runtime) -> None:
    if runtime.replicas == 1:
        return
    for layer in layers:
        # A Sequential model that is not built yet refuses to name the variables of its layers.
        own = (*layer._trainable_weights, *layer._non_trainable_weights)
        for variable in layer.variables if layer.built else own:
            if not runtime.strategy.extended.variable_created_in_scope(variable):
                raise UsageError(
                    f"the variable {variable.name!r} of {layer.name!r} was made outside the scope of the "
                    f"{runtime.replicas} replicas: build models, layers and metrics inside `with runtime.scope():`"
                )
