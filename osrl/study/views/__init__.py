"""What can be read off a study: status, evidence, arms, history, verification."""
