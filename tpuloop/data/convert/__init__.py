"""Data of many kinds into sharded record files: a plan, workers that each write a shard, a journal, a manifest."""
