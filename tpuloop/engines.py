"""The compiled loops of one TrainLoop, each made when first needed and kept for the next call."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import tensorflow as tf

from tpuloop.data.feed import Feed
from tpuloop.engine.graph_loop import GraphLoop, HostLoop, default_summary_writer
from tpuloop.engine.mean import Mean
from tpuloop.engine.predict_loop import PredictLoop
from tpuloop.engine.step import GlobalStep, Outputs
from tpuloop.engine.stop import StopFlag
from tpuloop.errors import UsageError
from tpuloop.settings import LoopSettings

StepLoop = Union[GraphLoop, HostLoop]


class Engines:
    """Makes loops around steps, as the settings say.

    Args:
      strategy: whose replicas run the steps.
      settings: of the TrainLoop.
      stop: ends any of the loops at its next step.
    """

    def __init__(self, *, strategy: tf.distribute.Strategy, settings: LoopSettings, stop: StopFlag):
        self._strategy = strategy
        self._settings = settings
        self._stop = stop
        self._made: Dict[Any, Any] = {}
        self._writers: Dict[Any, Any] = {}
        self._compiled_for: Any = None
        self._eager = settings.loop == "host"
        self._jit_compile = False

    def compiled_as(self, model: tf.keras.Model) -> None:
        """Follows the model's `run_eagerly` and `jit_compile`, and forgets what was made before `Model.compile`.

        That makes new losses and metrics, which a traced step does not know.
        """
        compiled_for = (model.compiled_loss, bool(model.run_eagerly), bool(model._jit_compile))
        if self._compiled_for != compiled_for:
            self._made.clear()
            self._compiled_for = compiled_for
        _, run_eagerly, jit_compile = compiled_for
        self._eager = run_eagerly or self._settings.loop == "host"
        self._jit_compile = jit_compile and not self._eager
        if self._jit_compile and self._strategy.num_replicas_in_sync > 1:
            raise UsageError(
                f"the model {model.name!r} is compiled with jit_compile=True, with which TensorFlow cannot sum "
                f"gradients over {self._strategy.num_replicas_in_sync} replicas: compile it without"
            )

    def stepping(
        self,
        name: str,
        *,
        replica_step: Callable[[Any], Outputs],
        feed: Feed,
        split: bool,
        results: Callable[[List[str]], Dict[str, tf.Tensor]],
        counters: Sequence[tf.Variable] = (),
        announced: Sequence[tf.Variable] = (),
        masked: bool = False,
        halt_on_nonfinite: bool = False,
        after: Optional[Callable[[tf.Tensor], None]] = None,
    ) -> StepLoop:
        """The loop of that name around a step.

        Args:
          name: "train" or "eval"; the same name is always given the same step.
          feed: the data; what matters is whether it may end unforeseen.
          results: given the names of the step's outputs, the metrics' results. Cross-replica context.
          replica_step, split, masked, after: as for `GlobalStep`.
          counters, announced, halt_on_nonfinite: as for `GraphLoop`.
        """
        key = (name, feed.may_end, split, masked, halt_on_nonfinite, len(counters), len(announced))
        writer = default_summary_writer()
        # A step that was traced keeps the summary writer it was traced with.
        if key not in self._made or self._writers[key] is not writer:
            self._writers[key] = writer
            step = GlobalStep(
                strategy=self._strategy,
                replica_step=replica_step,
                seed=self._settings.seed,
                masked=masked,
                split=split,
                jit_compile=self._jit_compile,
                after=after,
            )
            kind = HostLoop if self._eager else GraphLoop
            self._made[key] = kind(
                step=step,
                stop=self._stop,
                counters=counters,
                announced=announced,
                results=lambda: results([*step.names, *step.added]),
                halt_on_nonfinite=halt_on_nonfinite,
                data_may_end=feed.may_end,
            )
        return self._made[key]

    def trace(self, replica_step: Callable[[Any], Any], feed: Feed, *, split: bool, masked: bool) -> None:
        """Traces a step once and throws the trace away: what stays is what the step's layers made for themselves."""

        def traced(batch: Any) -> Outputs:
            replica_step(batch)
            return {"traced": Mean(tf.zeros(tf.shape(tf.nest.flatten(batch)[0])[:1]))}

        seed = self._settings.seed
        step = GlobalStep(strategy=self._strategy, replica_step=traced, seed=seed, masked=masked, split=split)
        batches = feed.dataset
        if self._strategy.num_replicas_in_sync > 1 and not split:
            batches = self._strategy.experimental_distribute_dataset(batches)

        @tf.function(autograph=False)
        def once(batch: Any) -> tf.Tensor:
            return step(tf.constant(0, tf.int64), batch)

        once.get_concrete_function(batches.element_spec)

    def predicting(self, *, replica_step: Callable[[Any], Any], split: bool) -> PredictLoop:
        """The loop around a step that predicts."""
        key = ("predict", split)
        if key not in self._made:
            self._made[key] = PredictLoop(
                strategy=self._strategy,
                replica_step=replica_step,
                seed=self._settings.seed,
                split=split,
                compiled=not self._eager,
                jit_compile=self._jit_compile,
            )
        return self._made[key]
