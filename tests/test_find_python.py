"""Which Python the set-up takes: .ci/find-python, run with folders of made-up Pythons."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

FIND_PYTHON = pathlib.Path(__file__).parents[1] / ".ci" / "find-python"
SHIM = "exit 127"  # what a pyenv shim does whose version is not chosen


def python(version, able="able"):
    """The body of a made-up Python: it answers the script's question and nothing else."""
    return f'echo "{version} {able} $0"'


def executable(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def find(tmp_path, *arguments, path="", **environment):
    """Runs the script where nothing can be found but what the test has put there."""
    environment.setdefault("PYENV_ROOT", str(tmp_path / "no-pyenv"))
    environment.update(PATH=str(path or tmp_path / "bin"), HOME=str(tmp_path))
    return subprocess.run([str(FIND_PYTHON), *arguments], env=environment, capture_output=True, text=True)


def assert_found(result, path):
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{path}\n", "")


def assert_refused(result, *words):
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def test_newest_on_path_first(tmp_path):
    executable(tmp_path / "bin/python3.8", python("3.8"))
    newest = executable(tmp_path / "bin/python3.10", python("3.10"))
    assert_found(find(tmp_path), newest)


def test_shim_that_runs_nothing_is_passed_over(tmp_path):
    executable(tmp_path / "shims/python3.10", SHIM)
    executable(tmp_path / "shims/python3", SHIM)
    behind = executable(tmp_path / "bin/python3.10", python("3.10"))
    assert_found(find(tmp_path, path=f"{tmp_path}/shims:{tmp_path}/bin"), behind)


def test_other_version_is_passed_over(tmp_path):
    executable(tmp_path / "bin/python3", python("3.12"))
    plain = executable(tmp_path / "bin/python", python("3.9"))
    assert_found(find(tmp_path), plain)


def test_python_without_ensurepip_is_passed_over(tmp_path):
    executable(tmp_path / "bin/python3.10", python("3.10", able="unable"))
    older = executable(tmp_path / "bin/python3.9", python("3.9"))
    assert_found(find(tmp_path), older)


def test_version_asked_for(tmp_path):
    executable(tmp_path / "bin/python3.10", python("3.10"))
    older = executable(tmp_path / "bin/python3.8", python("3.8"))
    assert_found(find(tmp_path, "3.8"), older)


def test_pyenv_folder_is_searched_after_path(tmp_path):
    executable(tmp_path / "bin/python3", SHIM)
    executable(tmp_path / "pyenv/versions/3.12.1/bin/python", python("3.12"))
    executable(tmp_path / "pyenv/versions/3.8.18/bin/python", python("3.8"))
    newest = executable(tmp_path / "pyenv/versions/3.10.13/bin/python", python("3.10"))
    assert_found(find(tmp_path, PYENV_ROOT=str(tmp_path / "pyenv")), newest)


def test_uv_installs_one_in_the_end(tmp_path):
    installed = executable(tmp_path / "uv/python3.10", SHIM)
    executable(
        tmp_path / "bin/uv",
        f"""case "$1 $2" in
        "python find") [ -e "{tmp_path}/installed" ] && echo "{installed}" ;;
        "python install") echo noise; : > "{tmp_path}/installed" ;;
        esac""",
    )
    assert_refused(find(tmp_path))  # uv's own Python does not run either
    executable(installed, python("3.10"))
    assert_found(find(tmp_path), installed)


@pytest.mark.skipif(os.path.exists("/opt/pyenv/versions"), reason="the script also looks there")
@pytest.mark.parametrize("body", [None, SHIM, python("3.12"), python("3.10", able="unable")])
def test_one_line_where_none_fits(tmp_path, body):
    if body is not None:
        executable(tmp_path / "bin/python3.10", body)
    assert_refused(find(tmp_path), "3.8, 3.9 or 3.10", "install", "PYTHON=")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (SHIM, "does not run (exit status 127)"),
        (python("3.12"), "is Python 3.12"),
        (python("3.10", able="unable"), "no ensurepip"),
    ],
)
def test_stated_python_that_does_not_fit_is_refused_with_the_reason(tmp_path, body, reason):
    executable(tmp_path / "bin/python3.10", python("3.10"))  # not taken instead
    stated = executable(tmp_path / "stated", body)
    assert_refused(find(tmp_path, PYTHON=str(stated)), f"PYTHON={stated}", reason)


def test_stated_python_that_is_not_there(tmp_path):
    assert_refused(find(tmp_path, PYTHON="/no/such/python"), "PYTHON=/no/such/python", "does not run")


@pytest.mark.skipif(importlib.util.find_spec("ensurepip") is None, reason="this Python has no ensurepip")
def test_real_python_is_named_by_its_own_path(tmp_path):
    # Not by that of the environment it runs in: making the environment anew would pull it from under itself.
    assert_found(find(tmp_path, PYTHON=sys.executable), os.path.realpath(sys.executable))
