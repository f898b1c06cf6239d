"""Where batches come from: sources with a position, and how they reach the replicas."""
