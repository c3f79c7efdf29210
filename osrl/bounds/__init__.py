"""Lower bounds on the samples that any policy needs."""
