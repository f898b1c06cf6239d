"""Data sets by name, a file for each kind; `registry.py` lists them."""
