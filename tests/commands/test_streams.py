"""A standard stream that is closed or has lost its reader does not end a run."""

import os
import subprocess
import sys

import pytest

HEADER = "import os, sys\nfrom tpuloop.commands import streams\nstreams.keep_open()\n"


def python(program, **more):
    return subprocess.run([sys.executable, "-c", HEADER + program], stderr=subprocess.PIPE, timeout=30, **more)


@pytest.mark.parametrize("number, name", [(0, "stdin"), (1, "stdout"), (2, "stderr")])
def test_a_closed_stream_is_dev_null_and_no_file_takes_its_number(tmp_path, number, name):
    program = (
        f"number = os.open({str(tmp_path / 'file')!r}, os.O_WRONLY | os.O_CREAT)\n"
        f"stream = sys.{name}\n"
        f"print('lost', file=stream, flush=True) if {number} else stream.read()\n"
        "os._exit(0 if number > 2 and os.path.samestat(os.fstat(%d), os.stat(os.devnull)) else 1)\n" % number
    )
    command = f'exec "$@" {number}{"<" if number == 0 else ">"}&-'
    done = subprocess.run(["/bin/sh", "-c", command, "sh", sys.executable, "-c", HEADER + program], timeout=30)
    assert done.returncode == 0
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_reader_who_has_gone_is_no_error(name):
    program = (
        f"print('read', file=sys.{name}, flush=True)\n"
        "sys.stdin.readline()\n"
        f"for _ in range(1000):\n    print('unread' * 1000, file=sys.{name})\n"
        f"sys.{name}.flush()\n"
        f"os.write(sys.{name}.fileno(), b'what C++ prints')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", HEADER + program], stdin=subprocess.PIPE, **{name: subprocess.PIPE}
    )
    stream = getattr(process, name)
    assert stream.readline() == b"read\n"
    stream.close()
    process.stdin.write(b"go\n")
    process.stdin.close()
    assert process.wait(timeout=30) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        done = python("print('result')\nsys.stdout.flush()", stdout=full)
    assert done.returncode != 0 and b"No space left on device" in done.stderr


def test_a_stream_is_otherwise_itself_and_wrapped_once():
    program = (
        "once = sys.stdout\n"
        "streams.keep_open()\n"
        "assert sys.stdout is once and once.fileno() == 1 and not once.isatty() and once.encoding\n"
        "print('a', 'b', sep='-')\n"
    )
    assert python(program, stdout=subprocess.PIPE).stdout == b"a-b\n"
