"""How k steps run: the loops, the reductions of a step, and its randomness."""
