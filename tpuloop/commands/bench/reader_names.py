"""What the input pipelines that are compared are called. No TensorFlow here."""

PACKED, CSV, OURS = "tpuloop, packed", "csv.reader and from_generator", "tpuloop, an example a record"
HAND_TUNED = "hand-tuned, an example a record"
