"""`tpuloop data TOPIC`: what is done to data outside of training, one topic a file, as in `tpuloop bench`."""

SUMMARY = "converts and examines data: data convert, data inspect, data bench"
TOPICS = ("convert", "inspect", "bench")
