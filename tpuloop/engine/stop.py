"""The one variable through which anything outside can end a compiled loop at its next step."""

import tensorflow as tf


class StopFlag:
    """A host variable that the loop's condition reads before every step.

    Any thread may set it while a compiled call runs; the call then returns after the step it is in.
    """

    def __init__(self):
        # On the host and outside any strategy: a mirrored variable could not be set while a call runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self.variable = tf.Variable(False, trainable=False, name="stop")
        self._obeyed = False

    def set(self) -> None:
        """The loop ends at the next step."""
        self.variable.assign(True)

    def obeyed(self) -> None:
        """The run that was to end has ended."""
        self._obeyed = self.is_set()

    def forget_obeyed(self) -> None:
        """Another run begins: a request that an earlier one obeyed is over, one that came since then stands."""
        if self._obeyed:
            self.variable.assign(False)
            self._obeyed = False

    def is_set(self) -> bool:
        """Whether the loop was asked to end."""
        return bool(self.variable.numpy())
