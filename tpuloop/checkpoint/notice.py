"""Notices that the machine will go: a signal ends the loop at its next step."""

import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Dict, Optional, Sequence

_SECOND_SIGNAL_STATUS = 128


class SignalNotice:
    """While active, SIGTERM and SIGINT ask for a stop instead of ending the process; a second one ends it at once.

    Python runs a signal handler only between its own instructions, so not before a compiled call of many steps has
    returned. The C handler beneath it writes to a wake-up file descriptor at once; a thread reads that and asks for
    the stop. Handlers that were installed before are called too, and put back at the end.

    Use it as a context manager, in the main thread.

    Args:
      on_notice: called from the thread at the first signal; must be quick and safe from any thread.
      signals: those that count.
    """

    def __init__(self, on_notice: Callable[[], None], *, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)):
        self._on_notice = on_notice
        self._signals = tuple(signals)
        self._earlier: Dict[int, Any] = {}
        self._received: Optional[int] = None
        self._thread: Optional[threading.Thread] = None
        self._read_end = self._write_end = self._earlier_fd = -1

    @property
    def received(self) -> Optional[str]:
        """The name of the signal that came, or None."""
        return None if self._received is None else signal.Signals(self._received).name

    def __enter__(self) -> "SignalNotice":
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._thread = threading.Thread(target=self._listen, name="tpuloop-signals", daemon=True)
        self._thread.start()
        for number in self._signals:
            self._earlier[number] = signal.signal(number, self._handle)
        self._earlier_fd = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: Any) -> None:
        signal.set_wakeup_fd(self._earlier_fd)
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        os.close(self._write_end)
        if self._thread is not None:
            self._thread.join()
        os.close(self._read_end)

    def _handle(self, number: int, frame: Optional[FrameType]) -> None:
        # The default of SIGINT raises KeyboardInterrupt, which would tear the step that is to be finished.
        earlier = self._earlier[number]
        if callable(earlier) and earlier is not signal.default_int_handler:
            earlier(number, frame)

    def _listen(self) -> None:
        while True:
            numbers = os.read(self._read_end, 64)
            if not numbers:
                return
            for number in numbers:
                if number not in self._signals:
                    continue
                if self._received is not None:
                    os._exit(_SECOND_SIGNAL_STATUS + number)
                self._received = number
                self._on_notice()
