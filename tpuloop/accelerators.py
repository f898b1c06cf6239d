"""The kinds of devices that can be asked for. Apart from the runtime, so that flags are checked without TensorFlow."""

ACCELERATORS = ("auto", "tpu", "gpu", "cpu")
