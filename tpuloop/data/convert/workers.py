"""Processes that each work on one job after the other, and tell how they get on."""

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import signal
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from tpuloop.errors import UsageError

PROGRESS, NOTE, RESULT, ERROR = "progress", "note", "result", "error"

_PROGRESS_SECONDS = 0.1
_NOT_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Sent to the whole group; the parent ends its workers.


class WorkerDied(RuntimeError):
    """A worker ended by itself, or was killed: one line."""


class News(NamedTuple):
    """What a worker says.

    Attributes:
      kind: PROGRESS with a count, NOTE with a text, RESULT with the job's, ERROR with the exception.
      job: the number of the job it works on.
      value: see kind.
    """

    kind: str
    job: int
    value: Any


class Reporter:
    """What a job's function tells the parent by; it fails when the parent is gone, which ends the work."""

    def __init__(self, send: Callable[[News], None], job: int):
        self._send = send
        self._job = job
        self._count = 0
        self._sent_at = 0.0

    def done(self, count: int) -> None:
        """Counts what is done; passed on now and then."""
        self._count += count
        now = time.monotonic()
        if now - self._sent_at >= _PROGRESS_SECONDS:
            self.flush()
            self._sent_at = now

    def note(self, text: str) -> None:
        """Passes on a line."""
        self._send(News(NOTE, self._job, text))

    def flush(self) -> None:
        """Passes on what is counted."""
        self._send(News(PROGRESS, self._job, self._count))
        self._count = 0


Work = Callable[[Any, Any, Reporter], Any]


class Workers:
    """Runs `work(setting, job, reporter)` for each job, in new processes. Use it as a context manager.

    Args:
      work: a function of a module.
      setting: pickled to each process once.
      jobs: handed out in order; pickled too.
      count: processes at most.
    """

    def __init__(self, *, work: Work, setting: Any, jobs: Sequence[Any], count: int):
        self._waiting = list(enumerate(jobs))[::-1]
        self._workers: Dict[Any, Any] = {}  # Connections and their processes.
        self._busy: Dict[Any, int] = {}  # Connections and the jobs at work.
        context = multiprocessing.get_context("spawn")
        try:
            with _signals_blocked():
                for _ in range(min(count, len(jobs))):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_serve, args=(theirs, work, setting), daemon=True)
                    process.start()
                    theirs.close()
                    self._workers[ours] = process
        except BaseException:  # Such as what a signal's handler raises, which waited until now.
            self.__exit__()
            raise

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self._workers.values():
            process.kill()
        for connection, process in self._workers.items():
            process.join()
            connection.close()

    def news(self, *, wait: float = 0.2) -> Iterator[Optional[News]]:
        """What the workers say, until all jobs are done; None where for `wait` seconds nobody says anything.

        The first error ends the handing out of jobs. Those before it are still finished, so that of several errors
        the one of the first job is told, whatever the timing, and it is the last news.

        Raises:
          WorkerDied: where one ends before its work does.
        """
        errors: Dict[int, News] = {}
        for connection in list(self._workers):
            self._hand_out(connection)
        while any(not errors or job < min(errors) for job in self._busy.values()):
            ready = multiprocessing.connection.wait(list(self._busy), timeout=wait)
            if not ready:
                yield None
            for connection in ready:
                news = self._receive(connection)
                if news.kind in (RESULT, ERROR):
                    del self._busy[connection]
                if news.kind == ERROR:
                    errors[news.job] = news
                    continue
                if news.kind == RESULT and not errors:
                    self._hand_out(connection)
                yield news
        if errors:
            yield errors[min(errors)]

    def _hand_out(self, connection: Any) -> None:
        if self._waiting:
            number, job = self._waiting.pop()
            try:
                connection.send((number, job))
            except OSError:
                pass  # It is gone, which is told where its answer is waited for.
            self._busy[connection] = number

    def _receive(self, connection: Any) -> News:
        try:
            return connection.recv()
        except (EOFError, OSError):
            process = self._workers[connection]
            process.join()
            raise WorkerDied(f"a worker process {_ending(process.exitcode)}") from None


def _serve(connection: Any, work: Work, setting: Any) -> None:
    """What a process does: jobs, until the parent is gone."""
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_OURS)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            index, job = connection.recv()
            reporter = Reporter(connection.send, index)
            try:
                result = work(setting, job, reporter)
            except (UsageError, OSError, MemoryError) as error:
                if isinstance(error, (BrokenPipeError, ConnectionResetError)):
                    raise
                connection.send(News(ERROR, index, error))
                continue
            reporter.flush()
            connection.send(News(RESULT, index, result))


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process started meanwhile is not interrupted before it can ignore these signals."""
    multiprocessing.resource_tracker.ensure_running()  # Else the first process starts it, which unblocks them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_OURS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(status: Optional[int]) -> str:
    if status is not None and status < 0:
        name = signal.Signals(-status).name
        memory = " (out of memory?)" if name == "SIGKILL" else ""
        return f"was killed by {name}{memory}"
    return f"ended with status {status}"


def run_all(
    *, work: Work, setting: Any, jobs: Sequence[Any], count: int, on_progress: Callable[[int], None] = lambda _: None
) -> List[Any]:
    """The results of all jobs, in order.

    Raises:
      WorkerDied: see `Workers`.
      Exception: the error of the first job that had one.
    """
    results: List[Tuple[int, Any]] = []
    with Workers(work=work, setting=setting, jobs=jobs, count=count) as workers:
        for news in workers.news():
            if news is not None and news.kind == ERROR:
                raise news.value
            if news is not None and news.kind == RESULT:
                results.append((news.job, news.value))
            if news is not None and news.kind == PROGRESS:
                on_progress(news.value)
    return [value for _, value in sorted(results, key=lambda pair: pair[0])]
