"""The routes of the service, by topic."""
