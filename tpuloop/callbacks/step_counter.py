"""Which step a callback is at, in either loop."""


class StepCounter:
    """Steps done so far.

    `TrainLoop.fit` tells them (`reached`). Keras's `model.fit` gives batch numbers that start again in every epoch;
    they are added up here, which also holds where one call runs several batches (`steps_per_execution`).

    Attributes:
      done: steps done; the last one has this number, since the first step is step 1.
    """

    def __init__(self, done: int = 0):
        self.done = done
        self._epoch_start = done

    def reached(self, step: int) -> None:
        """Step number `step` has ended."""
        self.done = step

    def epoch_begins(self) -> None:
        """Batches are counted from 0 again."""
        self._epoch_start = self.done

    def batch_ended(self, batch: int) -> None:
        """Batch number `batch` of the epoch, counted from 0, has ended."""
        self.done = self._epoch_start + batch + 1
