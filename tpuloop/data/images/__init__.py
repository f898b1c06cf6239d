"""Pictures: files and records that hold them, and what a model is given of one."""
