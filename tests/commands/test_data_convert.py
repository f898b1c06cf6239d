"""`tpuloop data convert` as a shell runs it: help, results, mistakes, stops, kills, full disks."""

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tpuloop.data.records.framing import read_frames
from tpuloop.data.records.manifest import Manifest
from tpuloop.data.records.packing import unpack

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 40_000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """About 5 MB, of which a part is quoted, so that it takes a while."""
    path = tmp_path_factory.mktemp("input") / "numbers.csv"
    with open(path, "w") as file:
        file.write(",".join(f"c{i}" for i in range(20)) + ",kind\n")
        for n in range(ROWS):
            quote = '"' if n % 100 == 0 else ""
            file.write(",".join(f"{(n * i) % 1000}.5" for i in range(20)) + f",{quote}{'ab'[n % 2]}{quote}\n")
    return path


@pytest.fixture(scope="module")
def whole(tpuloop, table, tmp_path_factory):
    """A folder that was converted in one go, by one worker."""
    out = tmp_path_factory.mktemp("whole") / "out"
    result = tpuloop(*arguments(table, out), "--workers=1")
    assert result.status == 0, result.err
    return contents(out)


def arguments(table, out):
    return ["data", "convert", table, "--label=kind", "--shards=16", "--held_out=0.1", f"--out={out}"]


def contents(folder):
    """All files and their bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read_split(folder, manifest, split):
    """All values of a split, by feature."""
    parts = []
    for shard in manifest.splits[split]:
        with open(folder / shard.file, "rb") as file:
            parts += [unpack(data, manifest.features) for _, data in read_frames(file)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class Started:
    """A conversion in a process group of its own."""

    def __init__(self, table, out, *more, **options):
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tpuloop", *map(str, arguments(table, out)), "--workers=2", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
            **options,
        )

    def wait_for_shards(self, count, seconds=60):
        deadline = time.monotonic() + seconds
        while self.shards() < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def shards(self):
        return len([name for name in os.listdir(self.out) if name.startswith("train")]) if self.out.exists() else 0

    def workers(self):
        """The process ids of its children that convert."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = [int(number) for number in file.read().split()]
        return [child for child in children if b"spawn_main" in open(f"/proc/{child}/cmdline", "rb").read()]

    def end(self):
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def test_help_is_quick_and_without_tensorflow(tpuloop):
    result = tpuloop("data", "convert", "--help")
    assert result.status == 0
    assert result.out.startswith("usage: tpuloop data convert INPUT... --flag=value\n") and "--held_out" in result.out
    code = (
        "import sys, tpuloop.__main__ as m; m.main(['data', 'convert', '--help'])\n"
        "assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_what_it_prints_and_what_it_says_when_it_is_done(tpuloop, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n5,6,x\n")
    command = ["data", "convert", "t.csv", "--out=out", "--label=kind"]
    first = tpuloop(*command, cwd=tmp_path)
    assert (first.status, first.out, first.err) == (0, "wrote 3 examples (train, 1 file) to out/\n", "")
    manifest = Manifest.load(str(tmp_path / "out"))
    assert manifest.classes == ("x", "y") and manifest.made["input"]["files"][0]["file"] == "t.csv"
    again = tpuloop(*command, cwd=tmp_path)
    assert (again.status, again.err) == (0, "")
    assert again.out == "already converted: 3 examples (train, 1 file) to out/\n"
    other = tpuloop(*command, "--drop=b", cwd=tmp_path)
    assert other.status == 2
    assert 'out holds another conversion (options.drop was not given and is ["b"]): use another --out' in other.err
    (tmp_path / "t.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n5,6,z\n")
    changed = tpuloop(*command, cwd=tmp_path)
    assert changed.status == 2 and "out holds another conversion (input.files[0].changed was" in changed.err
    (tmp_path / "out" / "train-00000-of-00001.tfrecord").unlink()
    damaged = tpuloop(*command, cwd=tmp_path)
    assert damaged.status == 2 and "convert the data anew into another --out, or delete out first" in damaged.err


def test_a_real_table(tpuloop, tmp_path):
    """As the README has it."""
    out = tmp_path / "iris"
    iris = os.path.join(os.path.dirname(HERE), "data", "iris", "iris.csv")
    result = tpuloop("data", "convert", iris, "--label=species", "--held_out=0.2", f"--out={out}")
    assert result.status == 0, result.err
    manifest = Manifest.load(str(out))
    assert manifest.classes == ("setosa", "versicolor", "virginica")
    train, test = (read_split(out, manifest, split) for split in ("train", "test"))
    assert len(train["y"]) + len(test["y"]) == 150 and 15 < len(test["y"]) < 45
    assert np.bincount(np.concatenate([train["y"], test["y"]])).tolist() == [50, 50, 50]
    # The means of all flowers, in centimetres, as Fisher's table gives them.
    means = np.concatenate([train["x"], test["x"]]).mean(axis=0)
    np.testing.assert_allclose(means, [5.8433, 3.0573, 3.7580, 1.1993], atol=1e-4)
    # The nearest mean of a species tells the flowers that are held out.
    centers = np.stack([train["x"][train["y"] == kind].mean(axis=0) for kind in range(3)])
    nearest = np.argmin(((test["x"][:, None] - centers) ** 2).sum(axis=2), axis=1)
    assert (nearest == test["y"]).mean() > 0.8


WRONG = [
    (["--out=o"], "name the input: tpuloop data convert INPUT... --out=DIR"),
    (["t.csv"], "--out is missing: give a folder to write into"),
    (["t.csv", "--out=o", "--lable=y"], "there is no flag --lable; did you mean 'label'?"),
    (["absent.csv", "--out=o"], "absent.csv: there is no such file"),
    (["absent.tfrecord", "--out=o"], "absent.tfrecord: there is no such file"),
    (["full", "--out=o", "--format=csv"], "full is a folder: give files, as with full/*"),
    (["t.xyz", "--out=o"], "t.xyz: what it holds cannot be told by its name 't.xyz': give --format, one of csv, npz, "),
    (["t.csv", "a.npz", "--out=o"], "t.csv is csv and a.npz is npz: convert one kind at a time, or give --format"),
    (["t.csv", "--out=o", "--format=cvs"], "--format 'cvs' is unknown: use one of csv, npz, images, tfrecord"),
    (["t.csv", "--out=o", "--image_size=3"], "--image_size has no effect on csv input: it is for images"),
    (["t.csv", "--out=o", "--held_out=1.5"], "held_out must be at least 0 and below 1; it is 1.5"),
    (["t.csv", "--out=o", "--shards=9"], "--shards=9: the input has only 2: give at most that many"),
    (["t.csv", "--out=o", "--workers=0"], "flag --workers=0: 0 is not a positive integer"),
    (["t.csv", "--out=o", "--on_bad_record=maybe"], "flag --on_bad_record=maybe: value should be one of <fail|skip>"),
    (["t.csv", "--out=t.csv"], "--out=t.csv is a file: give a folder"),
    (["t.csv", "--out=t.csv/o"], "--out=t.csv/o cannot be made: Not a directory"),
    (["t.csv", "--out=full"], "--out=full holds files of something else (a): give an empty folder"),
    (["full", "--out=o"], "full has no subfolders"),
    (["full", "--out=full/o"], "--out=full/o lies in the input full: give a folder beside it"),
    (["absent", "--out=o"], "absent: there is no such file"),
]


@pytest.mark.parametrize("given, message", WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_mistakes_are_one_line(quick_tpuloop, tmp_path, given, message):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    (tmp_path / "t.xyz").touch()
    result = quick_tpuloop("data", "convert", *given, cwd=tmp_path)
    assert result.status == 2, result.err
    (line,) = result.err.splitlines()
    assert line.startswith("tpuloop data convert: error: ") and message in line
    assert not result.out


def test_a_bad_row_ends_it_and_may_be_left_out(tpuloop, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\nx\n3\n")
    result = tpuloop("data", "convert", "t.csv", "--out=o", cwd=tmp_path)
    assert (result.status, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith("tpuloop data convert: error: t.csv, row 3, column 'a': 'x' is no number: mend it, or ")
    result = tpuloop("data", "convert", "t.csv", "--out=p", "--on_bad_record=skip", cwd=tmp_path)
    assert (result.status, result.out) == (0, "wrote 2 examples (train, 1 file) to p/; 1 left out\n")
    (line,) = result.err.splitlines()
    assert line.startswith("warning: left out: t.csv, row 3, column 'a': 'x' is no number")


def test_topics(quick_tpuloop):
    result = quick_tpuloop("data", "covnert")
    assert result.status == 2 and "unknown topic 'covnert'; did you mean 'convert'?" in result.err


@pytest.mark.parametrize(
    "number, to_group", [(signal.SIGINT, True), pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow)]
)
def test_a_signal_stops_it_and_the_same_command_goes_on(tpuloop, table, whole, tmp_path, number, to_group):
    started = Started(table, tmp_path / "out")
    started.wait_for_shards(2)
    workers = started.workers()
    assert workers
    (os.killpg if to_group else os.kill)(started.process.pid, number)
    status, out, err = started.end()
    assert (status, out) == (75, ""), err
    assert err.splitlines()[-1] == f"stopped by {number.name}; the same command goes on from here"
    assert "Traceback" not in err
    assert not any(os.path.exists(f"/proc/{worker}") for worker in workers)
    assert not [name for name in os.listdir(tmp_path / "out") if name.endswith(".writing") or name == "manifest.json"]
    rest = tpuloop(*arguments(table, tmp_path / "out"))
    assert rest.status == 0 and rest.err.startswith("going on: ")
    assert contents(tmp_path / "out") == whole


def test_a_signal_while_the_input_is_looked_through(tmp_path):
    """A pipe without a writer, which is waited for."""
    os.mkfifo(tmp_path / "t.csv")
    started = Started(tmp_path / "t.csv", tmp_path / "out")
    writer = None
    while writer is None:
        assert started.process.poll() is None
        with contextlib.suppress(OSError):  # ENXIO, until it is opened for reading.
            writer = os.open(tmp_path / "t.csv", os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    os.kill(started.process.pid, signal.SIGTERM)
    status, out, err = started.end()
    os.close(writer)
    assert (status, out, err) == (75, "", "stopped by SIGTERM; the same command goes on from here\n")


def test_leaving_bad_rows_out_goes_on_from_where_one_was_found(tpuloop, tmp_path):
    (tmp_path / "t.csv").write_text("a\n" + "".join(f"{n}\n" for n in range(300)) + "x\n")
    command = ["data", "convert", "t.csv", "--out=o", "--shards=3", "--workers=1"]
    assert "row 302, column 'a': 'x' is no number" in tpuloop(*command, cwd=tmp_path).err
    result = tpuloop(*command, "--on_bad_record=skip", cwd=tmp_path)
    assert result.status == 0 and result.err.startswith("going on: 2 of 3 shards are done\nwarning: left out: ")


def test_a_kill_at_any_moment(tpuloop, table, whole, tmp_path):
    """At random moments, again and again in one folder, until it is done."""
    out = tmp_path / "out"
    random.seed(7)
    kills = 0
    for at in (1, 6):
        started = Started(table, out)
        started.wait_for_shards(at)
        time.sleep(random.random() * 0.03)
        os.kill(started.process.pid, signal.SIGKILL)
        kills += started.end()[0] == -signal.SIGKILL
        assert not (out / "manifest.json").exists()
    assert kills == 2
    last = tpuloop(*arguments(table, out), "--workers=2")
    assert last.status == 0, last.err
    assert contents(out) == whole


def test_a_killed_worker_is_one_line(tpuloop, table, whole, tmp_path):
    started = Started(table, tmp_path / "out")
    started.wait_for_shards(1)
    os.kill(started.workers()[0], signal.SIGKILL)
    status, out, err = started.end()
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        "tpuloop data convert: error: a worker process was killed by SIGKILL (out of memory?); what is finished "
        "counts, and the same command goes on from there"
    ]
    assert tpuloop(*arguments(table, tmp_path / "out")).status == 0
    assert contents(tmp_path / "out") == whole


def test_a_full_disk_leaves_nothing_that_counts(tpuloop, table, whole, tmp_path):
    """No file may be longer than 100 kB, which the records of "train" are, as on a disk that is full."""
    out = tmp_path / "out"
    started = Started(table, out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    status, printed, err = started.end()
    assert (status, printed) == (1, "")
    (line,) = err.splitlines()
    assert "train-00000-of-00016.tfrecord cannot be written: File too large; what is finished counts" in line
    assert os.listdir(out) == [".conversion.jsonl"]
    assert tpuloop(*arguments(table, out)).status == 0
    assert contents(out) == whole


def test_lines_without_a_terminal_and_a_bar_on_one():
    import io

    from tpuloop.data.convert.bar import Bar

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    now = iter([0.0, 9.0, 20.0, 20.0, 25.0])
    plain = io.StringIO()
    with Bar(total=1000, done=100, unit="rows", stream=plain, clock=lambda: next(now)) as bar:
        bar.add(100)
        bar.add(300)
        bar.add(500)
    assert plain.getvalue() == "500 of 1,000 rows (20 a second)\n"
    terminal = Terminal()
    with Bar(total=1000, done=0, unit="rows", stream=terminal) as bar:
        bar.say("left out")
        bar.add(1000)
    assert "left out" in terminal.getvalue() and "100%" in terminal.getvalue() and "rows" in terminal.getvalue()


def test_a_pattern_that_no_shell_has_expanded(tpuloop, tmp_path):
    for name in ("b[1].csv", "a.csv"):
        (tmp_path / name).write_text("a,y\n1,0\n2,1\n")
    done = tpuloop("data", "convert", f"{tmp_path}/*.csv", f"{tmp_path}/b[1].csv", "--label=y", f"--out={tmp_path}/out")
    assert (done.status, done.err) == (0, "")
    inputs = Manifest.load(str(tmp_path / "out")).made["input"]["files"]
    assert [file["file"] for file in inputs] == [f"{tmp_path}/{name}" for name in ("a.csv", "b[1].csv", "b[1].csv")]
    none = tpuloop("data", "convert", f"{tmp_path}/*.tsv", f"--out={tmp_path}/none")
    assert none.status == 2 and f"no file matches {tmp_path}/*.tsv: check the path" in none.err
