"""A run of a million steps in one compiled call, which says when it is inside and when its last step ended."""

import signal
import sys
import threading
import time

import tensorflow as tf
from absl import flags

import tpuloop

OWN_HANDLER = flags.DEFINE_bool("own_handler", False, "Handle SIGTERM before the run.")
SLOW_END = flags.DEFINE_bool("slow_end", False, "Take a minute to end.")


class Watch(tpuloop.Callback):
    """Tells standard output how the run goes."""

    def on_train_begin(self, logs=None):
        print("begins", flush=True)
        threading.Thread(target=self._wait_for_steps, args=(int(self.loop.step.numpy()),), daemon=True).start()

    def _wait_for_steps(self, first):
        while self.loop.step.numpy() < first + 100:
            time.sleep(0.01)
        print("inside", flush=True)

    def on_steps_end(self, trace):
        print(f"last {trace.last_step} {float(trace.ended[-1])!r}", flush=True)

    def on_train_end(self, logs=None):
        if SLOW_END.value:
            time.sleep(60)


def build_model(recipe):
    del recipe
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    return model


def load_data(recipe):
    del recipe
    return tf.data.Dataset.from_tensors((tf.ones([2, 1]), tf.zeros([2, 1]))).repeat(), None


def own_handler(number, frame):
    del number, frame
    print("own handler", flush=True)


if __name__ == "__main__":
    defaults = {"steps": 1_000_000, "steps_per_loop": 1_000_000}
    if "--own_handler" in sys.argv:
        signal.signal(signal.SIGTERM, own_handler)
    try:
        tpuloop.run(model=build_model, data=load_data, defaults=defaults, callbacks=lambda: [Watch()])
    finally:
        print(f"SIGTERM is handled by {signal.getsignal(signal.SIGTERM)!r}", flush=True)
