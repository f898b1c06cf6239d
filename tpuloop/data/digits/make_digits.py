"""Writes train.tfrecord and test.tfrecord beside this file, from the copy of the digits in scikit-learn.

    pip install scikit-learn "numpy<1.24"   # needed only here; TensorFlow 2.9 cannot use a later NumPy
    python make_digits.py [FOLDER]          # FOLDER: where to write instead

The same bytes come out every time: the split is a permutation by a fixed seed, and NumPy never changes what
`RandomState` gives for one.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

SPLIT_SEED = 0
TRAIN_EXAMPLES = 1437  # of 1,797; the other 360 are held out


def example(image: np.ndarray, label: int, index: int) -> bytes:
    def int64(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    pixels = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.astype(np.uint8).tobytes()]))
    features = {"image": pixels, "label": int64(label), "id": int64(index)}
    message = tf.train.Example(features=tf.train.Features(feature=features))
    # A map has no order of its own: without this, the bytes could differ from one run to the next.
    return message.SerializeToString(deterministic=True)


def main(folder: pathlib.Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.RandomState(SPLIT_SEED).permutation(len(digits.target))
    for name, indices in [("train", order[:TRAIN_EXAMPLES]), ("test", order[TRAIN_EXAMPLES:])]:
        path = folder / f"{name}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for index in indices:
                writer.write(example(digits.images[index], int(digits.target[index]), int(index)))
        print(f"{path}: {len(indices)} examples")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
