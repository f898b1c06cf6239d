"""The commands, one file each. A command's module imports no TensorFlow until it runs."""
