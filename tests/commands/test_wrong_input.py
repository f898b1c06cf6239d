"""What a user may get wrong: each is one helpful line, no traceback, and an exit status."""

import os
import shutil

import numpy as np
import pytest

CONFIGS = {
    "syntax": "def get_config(:\n",
    "no_function": "def getconfig():\n    return None\n",
    "a_dict": "def get_config():\n    return {'steps': 3}\n",
    "fails": "def get_config():\n    raise RuntimeError('boom')\n",
    "needs": "import not_installed\n",
    "typo": "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict({'setps': 3})\n",
}

OWN = """
import numpy as np
import tensorflow as tf
import tpuloop

def net():
    return tf.keras.Sequential([tf.keras.layers.Flatten(input_shape=(8, 8, 1)), tf.keras.layers.Dense(10)])

def compiled():
    model = net()
    model.compile("sgd", "mse")
    return model

def no_model():
    return 3

def no_data():
    return 3

def flat():
    return (np.zeros([9, 4], np.float32), np.zeros(9, np.int64)), None

def texts():
    return (np.array(["a"] * 9), np.zeros(9, np.int64)), None

def named():
    return ({"ids": np.zeros([9, 4], np.float32)}, np.zeros(9, np.int64)), None

def absent():
    return np.load("absent.npz")

def absent_later():
    return tpuloop.DataSets(train=absent)

def unreadable():
    raise OSError("the archive ends too early")

def records():
    return tf.data.Dataset.from_tensors(tf.io.read_file("absent.tfrecord")), None

def nothing_held_out():
    return (np.zeros([9, 8, 8, 1], np.float32), np.zeros(9, np.int64)), None

def one_hot():
    return (np.zeros([9, 8, 8, 1], np.float32), np.eye(10, dtype=np.int64)[:9]), None

def empty():
    return (np.zeros([0, 8, 8, 1], np.float32), np.zeros(0, np.int64)), None
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working directory with recipes, a module and files of the user's."""
    folder = tmp_path_factory.mktemp("place")
    for name, text in CONFIGS.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "own.py").write_text(OWN)
    (folder / "broken.py").write_text("def net(:\n")
    (folder / "a_file").write_text("")
    (folder / "empty").mkdir()
    np.savez(folder / "narrow.npz", x=np.zeros([3, 8, 7, 1]))
    np.savez(folder / "nameless.npz", y=np.zeros(3))
    np.savez(folder / "none.npz", x=np.zeros([0, 8, 8, 1]))
    np.savez(folder / "words.npz", x=np.array(["a", "b"]))
    np.save(folder / "lone.npy", np.zeros([3, 8, 8, 1]))
    return folder


# The arguments, and what the one line must say.
WRONG_TRAINING = [
    # Flags.
    (["--stepz=3"], "there is no flag --stepz; did you mean 'steps'?"),
    (["three"], "unexpected argument 'three': give everything as --flag=value"),
    (["--steps=many"], "--steps=many"),
    (["--workdir"], "Missing value for flag --workdir"),
    (["--accelerator=gpuu"], "--accelerator 'gpuu' is unknown: use one of auto, cpu, gpu, tpu; did you mean 'gpu'?"),
    (["--steps_per_loop=abc"], "--steps_per_loop=abc: it must be an integer of at least 1, or auto"),
    # Values.
    (["--steps=0"], "steps must be an integer of at least 1; it is 0"),
    (["--steps=99999999999999999999"], "steps must be below 2**62"),
    (["--eval_every=0"], "eval_every must be an integer of at least 1; it is 0"),
    (["--save_every=-1"], "save_every must be an integer of at least 1; it is -1"),
    (["--steps_per_loop=0"], "steps_per_loop must be an integer of at least 1, or auto; it is 0"),
    (["--global_batch=0"], "global_batch must be an integer of at least 1; it is 0"),
    (["--seed=-1"], "seed must be an integer from 0 to 2**32 - 1; it is -1"),
    (["--learning_rate=-1"], "learning_rate must be a positive number; it is -1.0"),
    (["--learning_rate=nan"], "learning_rate must be a positive number; it is nan"),
    (["--learning_rate=inf"], "learning_rate must be a positive number; it is inf"),
    (["--mixed_precision=int8"], "mixed_precision 'int8' is unknown: use one of bfloat16, float16, float32"),
    (["--config.optimizer.learning_rate=None"], "learning_rate must be a positive number; it is None"),
    (["--config.optimizer.learning_rate=1" + 400 * "0"], "learning_rate must be a positive number; it is 1000"),
    # Recipe files.
    (["--config=mlp_digit"], "--config=mlp_digit: there is no such file; did you mean 'mlp_digits'?"),
    (["--config=missing.py"], "--config=missing.py: there is no such file"),
    (["--config=syntax.py"], "--config=syntax.py fails: SyntaxError: invalid syntax (syntax.py, line 1)"),
    (["--config=no_function.py"], "has no function get_config(); did you mean 'getconfig'?"),
    (["--config=a_dict.py"], "get_config() of --config=a_dict.py must return a ConfigDict, not dict"),
    (["--config=fails.py"], "--config=fails.py fails in line 2: RuntimeError: boom"),
    (["--config=needs.py"], "fails in line 1: ModuleNotFoundError: No module named 'not_installed'"),
    (["--config=typo.py"], "a recipe has no field 'setps'; did you mean 'steps'?"),
    (["--config=mlp_digits", "--config.setps=3"], "a recipe has no field 'setps'; did you mean 'steps'?"),
    (["--config.steps"], "--config.steps has no value: give --config.steps=VALUE"),
    (["--config.steps=many"], "steps must be an integer of at least 1; it is 'many'"),
    # Names.
    (["--model=mpl"], "resnet34, resnet50; did you mean 'mlp'?"),
    (["--model="], "model must be a mapping with a name"),
    (["--model=:net"], "model ':net': '' is no module's name; give package.module:function"),
    (["--model=not_there:net"], "the module cannot be imported: No module named 'not_there'"),
    (["--model=broken:net"], "model 'broken:net': the module cannot be imported: invalid syntax (broken.py, line 1)"),
    (["--model=own:ent"], "the module 'own' has no function 'ent'; did you mean 'net'?"),
    (["--model=own:no_model"], "model 'own:no_model' must return a Keras model, not int"),
    (["--config.model.hiden=(8,)"], "model 'mlp' takes no argument 'hiden'; did you mean 'hidden'?"),
    (
        ["--config.model.dropout=2"],
        "model 'mlp' cannot be built: dropout must be a number of at least 0 and below 1; it is 2",
    ),
    (["--config.model.input_shape=(4,)"], "an example of x has the shape (8, 8, 1), and the model 'mlp' takes (4)"),
    (["--config.model.dropout=abc"], "dropout must be a number of at least 0 and below 1; it is 'abc'"),
    (["--config.model.hidden=5"], "hidden must be a list of widths, such as (64, 64); it is 5"),
    (["--config.model.hidden=[1.5]"], "widths must be integers of at least 1; hidden is (1.5,), num_classes is 10"),
    (["--config.model.num_classes=5"], "the data has 10 classes, and the model 'mlp' has 5 outputs"),
    (["--model=builtins:dict"], "model 'builtins:dict' does not say which arguments it takes"),
    (["--data=digit"], "synthetic; did you mean 'digits'?"),
    (["--data=own:digits"], "the module 'own' has no function 'digits'"),
    (["--config.data.split=1"], "data 'digits' takes no argument 'split'"),
    (
        ["--optimizer=adm"],
        "optimizer 'adm' is unknown: use one of adam, adamw, lamb, lars, rmsprop, sgd; did you mean 'adam'?",
    ),
    (["--config.optimizer.clipnorm=1.0"], "optimizer 'adam' takes no argument 'clipnorm'"),
    (["--config.optimizer.momentun=0.9", "--optimizer=sgd"], "takes no argument 'momentun'; did you mean 'momentum'?"),
    (["--config.optimizer.beta_1=abc"], "optimizer 'adam': beta_1 must be a number; it is 'abc'"),
    (["--config.optimizer.epsilon=abc"], "optimizer 'adam': epsilon must be a number; it is 'abc'"),
    (["--config.optimizer.nesterov=yes", "--optimizer=sgd"], "nesterov must be True or False; it is 'yes'"),
    (["--config.optimizer.schedule.name=cosin"], "schedule 'cosin' is unknown: use one of constant, cosine"),
    (["--model=own:compiled", "--optimizer=adam"], "would have no effect: the model comes compiled with its own"),
    # Data.
    (
        ["--data=own:no_data"],
        "data 'own:no_data' must return a tpuloop.DataSets or a pair (train, evaluation), not int",
    ),
    (
        ["--model=own:net", "--data=own:flat"],
        "an example of x has the shape (4), and the model 'sequential' takes (8, 8, 1)",
    ),
    (["--model=own:net", "--data=own:texts"], "x holds strings, and the model 'sequential' takes float32"),
    (["--model=own:net", "--data=own:named"], "x has the features ids, and the model 'sequential' takes flatten_input"),
    (
        ["--model=own:net", "--data=own:one_hot"],
        "the training data: an example of y has the shape (10), and the loss sparse_categorical_crossentropy takes",
    ),
    (["--model=own:net", "--data=own:empty"], "the data is empty: the arrays hold 0 examples"),
    (["--data=own:absent"], "data 'own:absent' cannot be read: absent.npz: No such file or directory"),
    (["--data=own:absent_later"], "data 'own:absent_later' cannot be read: absent.npz: No such file or directory"),
    (["--data=own:unreadable"], "data 'own:unreadable' cannot be read: the archive ends too early"),
    (["--data=own:records"], "data 'own:records' cannot be read: absent.tfrecord; No such file or directory"),
    (
        ["--model=own:net", "--data=own:nothing_held_out", "--eval_every=2"],
        "eval_every is 2, and the data has nothing held out to evaluate on: leave it out (--config.eval_every=None)",
    ),
    (["--replicas=3"], "the global batch of 64 does not divide into 3 replicas: use 63 or 66"),
    # Folders: a path below a file cannot be made by anybody, root included.
    (["--workdir="], "--workdir is missing: give a folder for the run"),
    (["--workdir=a_file"], "--workdir=a_file is a file: give a folder"),
    (["--workdir=a_file/run"], "--workdir=a_file/run cannot be written: "),
]

WRONG_USE = [
    (["evaluate"], "--workdir is missing: give the folder of a run"),
    (["evaluate", "--workdir=empty"], "--workdir=empty holds no run (config.json is missing): train there first"),
    (["evaluate", "--workdir=not_there"], "--workdir=not_there holds no run"),
    (["evaluate", "--workdir=RUN", "--steps=3"], "there is no flag --steps"),
    (["evaluate", "--workdir=RUN", "--config.steps=3"], "there is no flag --config.steps"),
    (["evaluate", "--workdir=RUN", "--global_batch=0"], "must be an integer of at least 1; it is 0"),
    (["predict"], "--workdir is missing: give the folder of a run"),
    (["predict", "--workdir=typo"], "--workdir=typo holds no run (there is no such folder): train there first"),
    (["predict", "--workdir=typo", "--input=missing.npz", "--output=no/x.csv"], "--workdir=typo holds no run"),
    (["predict", "--workdir=a_file"], "--workdir=a_file is a file: give a folder"),
    (["export", "--workdir=typo"], "--workdir=typo holds no run (there is no such folder): train there first"),
    (["predict", "--workdir=RUN", "--input=missing.npz"], "--input=missing.npz cannot be read: No such file"),
    (["predict", "--workdir=RUN", "--input=a_file"], "--input=a_file is no .npz file"),
    (["predict", "--workdir=RUN", "--input=empty"], "--input=empty cannot be read: Is a directory"),
    (["predict", "--workdir=RUN", "--input=lone.npy"], "--input=lone.npy is no .npz file: write one with np.savez"),
    (["predict", "--workdir=RUN", "--input=nameless.npz"], "--input=nameless.npz has no array 'x'; its arrays are y"),
    (["predict", "--workdir=RUN", "--input=none.npz"], "holds no examples: x has the shape (0, 8, 8, 1)"),
    (["predict", "--workdir=RUN", "--input=words.npz"], "x holds strings, and the model 'mlp' takes float32"),
    (
        ["predict", "--workdir=RUN", "--input=narrow.npz"],
        "--input=narrow.npz: an example of x has the shape (8, 7, 1), and the model 'mlp' takes (8, 8, 1)",
    ),
    (["predict", "--workdir=RUN", "--output=x.txt"], "--output=x.txt: the file must end in .npz or .csv"),
    (["predict", "--workdir=RUN", "--output=no/x.csv"], "--output=no/x.csv: there is no folder no"),
    (["export", "--workdir=RUN", "--output=empty"], "--output=empty exists: give the name of a new folder"),
    (["export", "--workdir=RUN", "--output=a_file/x"], "--output=a_file/x cannot be written: "),
]


def check_one_line(result, command, message, *, status=2, start=0):
    """One line on standard error, after at most `start` lines that say how the run starts."""
    *before, last = result.err.splitlines()
    assert result.status == status, result.err
    assert last.startswith(f"tpuloop {command}: error: ") and message in last, result.err
    assert len(before) <= start and not [line for line in before if "error" in line.lower()], result.err
    assert not result.out


@pytest.mark.parametrize("arguments, message", WRONG_TRAINING, ids=[" ".join(case[0]) for case in WRONG_TRAINING])
def test_training(quick_tpuloop, place, tmp_path, arguments, message):
    if not any(argument.startswith("--workdir") for argument in arguments):
        arguments = [*arguments, f"--workdir={tmp_path}"]
    check_one_line(quick_tpuloop("train", *arguments, cwd=place), "train", message, start=6)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("arguments, message", WRONG_USE, ids=[" ".join(case[0]) for case in WRONG_USE])
def test_use_of_a_run(quick_tpuloop, place, small_run, arguments, message):
    arguments = [argument.replace("RUN", str(small_run)) for argument in arguments]
    check_one_line(quick_tpuloop(*arguments, cwd=place), arguments[0], message, start=1)


def test_an_unknown_command(quick_tpuloop):
    result = quick_tpuloop("trian")
    assert result.status == 2
    assert result.err.startswith("tpuloop: error: unknown command 'trian': ") and "did you mean 'train'?" in result.err
    assert len(result.err.splitlines()) == 1


def test_another_recipe_in_the_same_folder(quick_tpuloop, small_run):
    result = quick_tpuloop("train", "--steps=4", "--optimizer=sgd", f"--workdir={small_run}")
    message = "another recipe (optimizer.name was 'adam' and is 'sgd'; steps was 3 and is 4): use another workdir"
    check_one_line(result, "train", message, start=1)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_checkpoints_that_are_all_damaged_are_no_reason_to_start_over(quick_tpuloop, small_run, tmp_path, command):
    workdir = tmp_path / "run"
    shutil.copytree(small_run, workdir)
    (folder,) = (workdir / "checkpoints").iterdir()
    for name in os.listdir(folder):
        if name.startswith("state.data"):
            (folder / name).write_bytes(b"damaged")
    arguments = ["--steps=3"] if command == "train" else []
    result = quick_tpuloop(command, *arguments, f"--workdir={workdir}")
    *_, warning, _ = result.err.splitlines()
    assert warning.startswith("warning: passing over a damaged checkpoint: ") and folder.name in warning
    check_one_line(result, command, "does not start over by itself", status=1, start=7)


def test_a_mistake_in_the_first_attempt_does_not_spoil_the_folder(quick_tpuloop, place, tmp_path):
    workdir = f"--workdir={tmp_path}"
    assert quick_tpuloop("train", "--model=own:net", "--data=own:empty", workdir, cwd=place).status == 2
    assert quick_tpuloop("train", "--steps=1", "--replicas=3", workdir, cwd=place).status == 2
    assert (tmp_path / "config.json").exists()
    right = quick_tpuloop("train", "--steps=2", "--eager", workdir, cwd=place)
    assert right.status == 0, right.err
    assert quick_tpuloop("evaluate", workdir, cwd=place).out.endswith("at step 2\n")


@pytest.mark.parametrize(
    "arguments, error",
    [(["--stepz=3", "--debug"], "UnrecognizedFlagError"), (["--debug", "--model=mpl", "--workdir=new"], "UsageError")],
)
def test_debug_shows_the_traceback_and_keeps_the_status(quick_tpuloop, tmp_path, arguments, error):
    result = quick_tpuloop("train", *arguments, cwd=tmp_path)
    assert result.status == 2
    assert "Traceback (most recent call last)" in result.err and error in result.err
    assert result.err.splitlines()[-1].startswith("tpuloop train: error: ")


def test_a_failure_in_the_users_own_code_has_its_traceback(quick_tpuloop, tmp_path):
    (tmp_path / "own.py").write_text("def net():\n    return {}['missing']\n")
    result = quick_tpuloop("train", "--model=own:net", "--workdir=new", cwd=tmp_path)
    assert result.status == 1
    assert "return {}['missing']" in result.err and result.err.splitlines()[-1] == "KeyError: 'missing'"
