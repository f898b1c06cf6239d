"""Record files and their manifest, read and written without TensorFlow."""
