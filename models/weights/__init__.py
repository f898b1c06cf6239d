"""Published weights into a model: `files` reads them, a layout says whose they are, `assign` matches and assigns them.

Importing this package imports no TensorFlow.
"""
