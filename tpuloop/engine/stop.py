"""The one variable through which anything outside can end a compiled loop at its next step."""

import tensorflow as tf

from tpuloop.engine.host_variable import host_variable


class StopFlag:
    """Asked for by any thread, and seen by a compiled call at its next step.

    What the loop's condition reads is one number, the step to stop at: a flag beside it would cost two more operations
    in every step.
    """

    def __init__(self):
        self.limit = host_variable(0, name="limit", dtype=tf.int64)
        self.ended_run = False  # Whether the last run ended because it was asked to.
        self._asked = False
        self.in_run = False

    def set(self) -> None:
        """The loop ends at the next step. Also for signal handlers, which may run in the middle of `allow`."""
        self._asked = True
        self.limit.assign(0)

    def allow(self, limit: int) -> None:
        """The next compiled call may go on while the steps done are less than `limit`, unless a stop was asked for."""
        self.limit.assign(limit)
        # Only now, so that a stop that comes in between is not overwritten.
        if self._asked:
            self.limit.assign(0)

    def run_begins(self) -> None:
        """A request that came before stands: the run ends before its first step."""
        self.ended_run = False
        self.in_run = True

    def run_ended(self, *, stopped: bool) -> None:
        """The request is over, so that it does not stop an evaluation or another run as well.

        Args:
          stopped: whether the run ended before it was complete.
        """
        self.ended_run = self._asked and stopped
        self._asked = self.in_run = False

    def forget_outside_runs(self) -> None:
        """Before and after an evaluation. One outside a run is ended by requests that come while it runs, no others."""
        if not self.in_run:
            self._asked = False

    def is_set(self) -> bool:
        """Whether the loop was asked to end."""
        return self._asked
