"""`tpuloop data TOPIC`: what is done to data outside of training, one topic a file, as in `tpuloop bench`."""

SUMMARY = "converts data into record files: data convert"
TOPICS = ("convert",)
