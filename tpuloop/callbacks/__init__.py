"""Callbacks of our own, one file each. All of them work in `TrainLoop.fit` and in Keras's `model.fit`."""
