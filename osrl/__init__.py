"""Best-arm identification for tasks that share a representation."""
