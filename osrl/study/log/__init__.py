"""The log of a study: events, their hash chain, and files of both."""
