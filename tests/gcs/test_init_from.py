"""A model that starts from what is in an object store."""

CODE = """
import tpuloop
from tpuloop.models.mlp import mlp
model = mlp(input_shape=(8, 8, 1), num_classes=10)
for path in ("run/", "run/checkpoints/step-00000003", "copied/model.ckpt", "copied", "none", "a.safetensors"):
    try:
        print(tpuloop.init_from(model, f"gs://bucket/{path}").summary(path))
    except tpuloop.UsageError as error:
        print(error)
"""


def test_from_a_run_and_from_a_checkpoint_of_tensorflow_in_the_store(store, run, python):
    assert run("train", "--steps=3", "--eager", "--workdir=gs://bucket/run").status == 0
    for name in store.names("bucket", "run/checkpoints/step-00000003/state"):
        ending = name.rpartition("/state")[2]
        store.put("bucket", f"copied/model.ckpt{ending}", store.content("bucket", name))
    assert python(CODE) == [
        "6 of 6 variables from run/ (step 3 of a run)",
        "6 of 6 variables from run/checkpoints/step-00000003 (step 3 of a run)",
        "6 of 6 variables from copied/model.ckpt (the model's own names)",
        "6 of 6 variables from copied (the model's own names)",
        "init_from: gs://bucket/none holds no TensorFlow checkpoint: give one, or copy files of another format here "
        "first",
        "init_from: gs://bucket/a.safetensors can only be read from a local disk: copy it here first",
    ]
