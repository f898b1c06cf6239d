"""`tpuloop data convert` from and to a store."""

import os
import subprocess
import sys

import numpy as np
import tensorflow as tf

ENVIRONMENT = {"TF_USE_MODULAR_FILESYSTEM": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def convert(store, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tpuloop", "data", "convert", *map(str, arguments), "--workers=1"],
        env={**os.environ, **ENVIRONMENT, **store.environment},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_same_files_as_on_a_disk(store, tmp_path):
    text = "a,b,y\n" + "".join(f"{n},{n / 2},{n % 3}\n" for n in range(500))
    (tmp_path / "t.csv").write_text(text)
    store.put("bucket", "in/t.csv", text.encode())
    assert convert(store, tmp_path / "t.csv", "--label=y", f"--out={tmp_path / 'out'}")[0] == 0
    command = ("gs://bucket/in/t.csv", "--label=y", "--out=gs://bucket/out")
    assert convert(store, *command) == (0, "wrote 500 examples (train, 4 files) to gs://bucket/out/\n", "")
    names = {name.split("/")[-1] for name in store.names("bucket", "out/")} - {""}
    assert names == set(os.listdir(tmp_path / "out"))
    for name in names - {"manifest.json"}:
        assert store.content("bucket", f"out/{name}") == (tmp_path / "out" / name).read_bytes()
    assert convert(store, *command)[1].startswith("already converted: ")
    by_pattern = convert(store, "gs://bucket/i*/*.csv", "--label=y", "--out=gs://bucket/out")
    assert by_pattern[1].startswith("already converted: "), by_pattern


def test_a_store_that_does_not_take_it(store, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    store.fault = lambda request: 403 if request.kind == "write" and "tfrecord" in request.name else None
    command = (tmp_path / "t.csv", "--out=gs://bucket/out")
    status, out, err = convert(store, *command)
    assert (status, out) == (1, "") and "train-00000-of-00001.tfrecord cannot be written: " in err.splitlines()[-1]
    store.fault = lambda request: None
    assert convert(store, *command)[0] == 0
    status, out, err = convert(store, "gs://bucket/absent.csv", "--out=gs://bucket/other")
    assert (status, err) == (2, "tpuloop data convert: error: gs://bucket/absent.csv: there is no such file\n")


def test_pictures_of_a_folder_in_a_store(store, tmp_path):
    for number in range(6):
        picture = tf.io.encode_png(np.full([4, 4, 3], 40 * number, np.uint8)).numpy()
        name = f"{('cat', 'dog')[number % 2]}/{'more/' if number > 3 else ''}{number}.png"
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(picture)
        store.put("bucket", f"in/{name}", picture)
    assert convert(store, tmp_path / "in", f"--out={tmp_path / 'one'}")[0] == 0
    assert convert(store, "gs://bucket/in", f"--out={tmp_path / 'other'}")[0] == 0
    (name,) = set(os.listdir(tmp_path / "one")) - {"manifest.json"}
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert convert(store, "gs://bucket/nothing", "--format=images", f"--out={tmp_path / 'no'}")[2].startswith(
        "tpuloop data convert: error: gs://bucket/nothing is no folder: "
    )
