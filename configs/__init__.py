"""Recipes, one file each: `get_config()` returns an ml_collections ConfigDict of `tpuloop.Recipe` fields."""
