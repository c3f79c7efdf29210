"""The log of a study: events, their hash chain, and its export to files."""
