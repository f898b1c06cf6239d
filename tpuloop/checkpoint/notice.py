"""Notices that the machine will go: a signal ends the loop at its next step."""

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

# A closed terminal, Ctrl-C, and whoever needs the machine.
NOTICES = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

_SECOND_SIGNAL_STATUS = 128
_ONE_NOTICE_SECONDS = 0.25


class SignalNotice:
    """While active, signals ask for a stop instead of ending the process; a second one ends it at once.

    Python runs a signal handler only between its own instructions, so not before a compiled call of many steps has
    returned. The C handler beneath it writes to a wake-up file descriptor at once; a thread reads that and asks for
    the stop. Handlers that were installed before are called too, and put back at the end. A signal that is ignored
    stays ignored, as `nohup` and shells want it.

    Use it as a context manager, in the main thread.

    Args:
      on_notice: called with the signal's name from the thread, at the first signal; must be quick and safe from any
        thread.
      signals: those that count.
    """

    def __init__(self, on_notice: Callable[[str], None], *, signals: Sequence[int] = NOTICES):
        self._on_notice = on_notice
        self._signals = tuple(signals)
        self._earlier: Dict[int, Any] = {}
        self._received: Optional[int] = None
        self._received_at = 0.0
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
        # Before the handlers, and taken away after them, so that no signal is handled and not told.
        self._earlier_fd = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in self._signals:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._earlier[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._earlier.items():
            # None is C code's, which Python cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._earlier_fd)
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
                if number in self._signals:
                    self._take(number)

    def _take(self, number: int) -> None:
        if self._received is None:
            self._received, self._received_at = number, time.monotonic()
            self._on_notice(signal.Signals(number).name)
        elif time.monotonic() - self._received_at > _ONE_NOTICE_SECONDS:
            # Not sooner: `timeout` and the like signal a process and then its group, and mean one notice.
            os._exit(_SECOND_SIGNAL_STATUS + number)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Inside, notices raise KeyboardInterrupt in the main thread, where no handler of somebody else's is installed.

    For a time at which there is nothing to save yet. One that came while somebody catches everything, as destructors
    do, is raised at the end. Use it in the main thread.
    """
    received = []

    def interrupt(number: int, frame: Optional[FrameType]) -> None:
        received.append(number)
        raise KeyboardInterrupt

    earlier = {number: signal.getsignal(number) for number in NOTICES}
    ours = [number for number, handler in earlier.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
        if received:
            raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        _free_quietly(error)
        raise
    finally:
        for number in ours:
            signal.signal(number, earlier[number])


def _free_quietly(error: BaseException) -> None:
    """Frees what the error's frames hold: what was interrupted while it was made may fail to free itself and say so."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    try:
        traceback.clear_frames(error.__traceback__)
        gc.collect()
    finally:
        sys.unraisablehook = hook
