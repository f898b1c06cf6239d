"""What the input pipelines that are compared are called. No TensorFlow here."""

PACKED, OURS = "tpuloop, packed", "tpuloop, one a record"
CSV, HAND_TUNED = "csv.reader, from_generator", "hand-tuned, one a record"
