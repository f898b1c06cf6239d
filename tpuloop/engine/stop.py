"""The one variable through which anything outside can end a compiled loop at its next step."""

from tpuloop.engine.host_variable import host_variable


class StopFlag:
    """A host variable that the loop's condition reads before every step.

    Any thread may set it while a compiled call runs; the call then returns after the step it is in.
    """

    def __init__(self):
        self.variable = host_variable(False, name="stop")
        self.ended_run = False  # Whether the last run ended because it was asked to.

    def set(self) -> None:
        """The loop ends at the next step."""
        self.variable.assign(True)

    def run_begins(self) -> None:
        """A request that came before stands: the run ends before its first step."""
        self.ended_run = False

    def run_ended(self) -> None:
        """The request is over, so that it does not stop an evaluation or another run as well."""
        self.ended_run = self.is_set()
        self.variable.assign(False)

    def is_set(self) -> bool:
        """Whether the loop was asked to end."""
        return bool(self.variable.numpy())
