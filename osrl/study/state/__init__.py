"""The state of a study: what the events of its log add up to."""
