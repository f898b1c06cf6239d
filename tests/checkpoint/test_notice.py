"""Signals: what they ask of a run, and how quickly it obeys inside a compiled call of a million steps."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tpuloop.checkpoint.notice import SignalNotice, interrupting

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "long_call.py")


def send_to_self(number):
    os.kill(os.getpid(), number)


def wait_for(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert condition()


@pytest.fixture
def handled():
    """Signals that a handler of the user's was called with; SIGTERM, SIGINT and SIGHUP are put back at the end."""
    numbers = []
    earlier = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGTERM, lambda number, frame: numbers.append(number))
    yield numbers
    for number, handler in earlier.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_told_by_name_from_a_thread(handled, number):
    told = []
    with SignalNotice(lambda name: told.append((name, threading.current_thread()))) as notice:
        assert notice.received is None
        send_to_self(number)
        wait_for(lambda: told)
    (name, thread), = told  # fmt: skip
    assert name == notice.received == signal.Signals(number).name
    assert thread is not threading.main_thread()


def test_it_is_told_while_the_main_thread_is_in_c_for_long():
    # As in a compiled call, no instruction of Python's own runs in the main thread, and so no handler.
    program = (
        "import hashlib, os, threading\n"
        "from tpuloop.checkpoint.notice import SignalNotice\n"
        "with SignalNotice(lambda name: (print(name, flush=True), os._exit(3))):\n"
        "    threading.Timer(0.1, os.kill, (os.getpid(), 15)).start()\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=20)
    assert (done.returncode, done.stdout) == (3, b"SIGTERM\n")


def test_an_earlier_handler_is_called_and_put_back(handled):
    earlier = signal.getsignal(signal.SIGTERM)
    with SignalNotice(lambda name: None) as notice:
        send_to_self(signal.SIGTERM)
        wait_for(lambda: notice.received)
    assert handled == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is earlier
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    send_to_self(signal.SIGTERM)
    assert handled == [signal.SIGTERM] * 2


def test_a_wake_up_descriptor_of_somebody_else_is_put_back(handled):
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    try:
        with SignalNotice(lambda name: None) as notice:
            send_to_self(signal.SIGTERM)
            wait_for(lambda: notice.received)
    finally:
        assert signal.set_wakeup_fd(-1) == write_end
    os.close(read_end)
    os.close(write_end)


def test_what_is_ignored_stays_ignored(handled):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    told = []
    with SignalNotice(told.append):
        send_to_self(signal.SIGHUP)
        send_to_self(signal.SIGTERM)
        wait_for(lambda: told)
    assert told == ["SIGTERM"]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_other_signals_are_none_of_its_business(handled):
    seen = []
    earlier = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        with SignalNotice(lambda name: None) as notice:
            send_to_self(signal.SIGUSR1)
            wait_for(lambda: seen)
            time.sleep(0.01)
            assert notice.received is None
    finally:
        signal.signal(signal.SIGUSR1, earlier)


def test_two_signals_at_once_are_one_notice(handled):
    # `timeout` signals a process and then its group.
    told = []
    with SignalNotice(told.append):
        send_to_self(signal.SIGTERM)
        send_to_self(signal.SIGINT)
        wait_for(lambda: told)
        time.sleep(0.05)
    assert len(told) == 1


def test_no_thread_and_no_file_is_left(handled):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    before = threading.active_count(), open_files()
    for _ in range(3):
        with SignalNotice(lambda name: None):
            pass
    assert (threading.active_count(), open_files()) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_where_there_is_nothing_to_save_a_signal_interrupts(handled, number):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt), interrupting():
        send_to_self(number)
        time.sleep(5)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_where_there_is_nothing_to_save_a_handler_of_the_user_is_left_alone(handled):
    with interrupting():
        send_to_self(signal.SIGTERM)
    assert handled == [signal.SIGTERM]


class Swallowing:
    """As a destructor during which the signal comes: Python tells of its KeyboardInterrupt, and goes on."""

    def __del__(self):
        send_to_self(signal.SIGINT)
        time.sleep(0)


def test_an_interrupt_that_was_swallowed_is_raised_at_the_end(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    with pytest.raises(KeyboardInterrupt), interrupting():
        one = Swallowing()
        del one
        after = "reached"
    assert after == "reached"


def test_what_was_torn_by_an_interrupt_frees_itself_without_a_word(monkeypatch):
    freed, told = [], []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    hook = sys.unraisablehook

    class Torn:
        def __init__(self):
            send_to_self(signal.SIGINT)
            time.sleep(1)
            self.handle = "never"

        def __del__(self):
            freed.append(self)
            del self.handle

    with pytest.raises(KeyboardInterrupt), interrupting():
        Torn()
    assert len(freed) == 1
    assert told == []
    assert sys.unraisablehook is hook


class LongCall:
    """The script as a process, whose lines are waited for."""

    def __init__(self, workdir, *arguments):
        self.workdir = workdir
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, f"--workdir={workdir}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self.lines = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def wait_for_line(self, start):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(start):
                return self.lines[-1]
        raise AssertionError(f"{start!r} never came: {self.lines}, {self.process.stderr.read()}")

    def wait_until_caught(self, number):
        """Until the process has a handler for a signal."""

        def is_caught():
            with open(f"/proc/{self.process.pid}/status") as file:
                (mask,) = re.findall(r"^SigCgt:\s*(\w+)", file.read(), re.MULTILINE)
            return int(mask, 16) & 1 << (number - 1)

        wait_for(is_caught, seconds=20)

    def end(self):
        """The exit status; all lines are then known."""
        out, self.errors = self.process.communicate(timeout=60)
        self.lines += out.splitlines()
        return self.process.returncode

    def saved_step(self):
        (path,) = glob.glob(f"{self.workdir}/checkpoints/step-*/COMMIT.json")
        with open(path) as file:
            return json.load(file)["step"]


def check_quick(line, sent):
    """The step of a line such as "last STEP TIME", whose time must come soon after the signal was sent."""
    _, step, ended = line.split()
    assert 100 <= int(step) < 1_000_000
    # 2 ms by measurement; the machine may have other work.
    assert -0.01 < float(ended) - sent < 0.5
    return int(step)


def test_a_call_of_a_million_steps_ends_at_the_next_one_and_its_state_is_saved(tmp_path):
    with LongCall(tmp_path / "run", "--own_handler") as run:
        run.wait_for_line("inside")
        sent = time.time()
        run.process.send_signal(signal.SIGTERM)
        step = check_quick(run.wait_for_line("last"), sent)
        assert run.end() == 75
    assert f"stopped by SIGTERM after step {step}, its state is saved: the same command continues" in run.errors
    assert run.saved_step() == step
    assert "own handler" in run.lines
    assert run.lines[-1].startswith("SIGTERM is handled by <function own_handler")


def test_a_second_signal_ends_the_process_at_once(tmp_path):
    with LongCall(tmp_path / "run", "--slow_end") as run:
        run.wait_for_line("inside")
        sent = time.time()
        run.process.send_signal(signal.SIGINT)
        check_quick(run.wait_for_line("last"), sent)
        time.sleep(0.5)
        assert run.process.poll() is None
        sent = time.time()
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 128 + signal.SIGTERM
        assert time.time() - sent < 2
    assert "SIGINT came: stopping after this step and saving; another one ends the run at once" in run.errors


def test_a_signal_while_the_loop_is_compiled_ends_the_run_before_its_first_step(tmp_path):
    with LongCall(tmp_path / "run") as run:
        run.wait_for_line("begins")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 75
    assert "stopped by SIGTERM after step 0" in run.errors
    assert run.saved_step() == 0


def test_a_signal_while_tensorflow_loads_ends_the_run_quickly(tmp_path):
    with LongCall(tmp_path / "run") as run:
        run.wait_until_caught(signal.SIGTERM)
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 75
    assert run.errors.splitlines()[-1] == (
        "stopped before its first step, so that nothing is lost: the same command starts again"
    )
