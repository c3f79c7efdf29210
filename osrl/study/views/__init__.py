"""Views of a study, which change nothing: status, evidence, arms, trials, history, forecast, verification."""
