"""Functions of ours in a data pipeline are traced as they are.

AutoGraph takes longer to convert them, which have nothing to convert, than TensorFlow to trace them.
"""

import tensorflow as tf

as_written = tf.autograph.experimental.do_not_convert
