"""Optimizers and learning rate schedules that Keras 2.9 lacks or gets wrong. Importing this imports no TensorFlow."""
