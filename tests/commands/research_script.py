"""Label smoothing on the digits: a research program of its own, with the flags of `tpuloop train`."""

import tensorflow as tf
from absl import flags

import tpuloop
from tpuloop.data.sets.digits import digits

SMOOTHING = flags.DEFINE_float(
    "smoothing", 0.1, "Share of the label spread over all classes.", lower_bound=0, upper_bound=1
)


class Smoothed(tpuloop.TrainLoop):
    """Cross-entropy with smoothed labels while training, and plain in evaluation."""

    def forward_loss(self, batch, *, training):
        x, y = batch
        share = SMOOTHING.value if training else 0.0
        labels = tf.one_hot(y, 10) * (1 - share) + share / 10
        logits = self.model(x, training=training)
        loss = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
        return loss, {"accuracy": tpuloop.Mean(tf.argmax(logits, axis=1) == y)}


def build_model(recipe):
    """A small network with dropout, so that a resumed run must repeat its masks."""
    del recipe
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [layers.Flatten(input_shape=(8, 8, 1)), layers.Dense(32, "relu"), layers.Dropout(0.1), layers.Dense(10)]
    )


def load_data(recipe):
    """Training and held-out digits."""
    del recipe
    data = digits()
    return data.train, data.evaluation


if __name__ == "__main__":
    tpuloop.run(Smoothed, model=build_model, data=load_data, defaults={"global_batch": 32, "eval_every": 10_000})
