"""Anytime-valid evidence: numbers that may be looked at after every sample.

An e-process starts at 1 and, while its null hypothesis is true, is not expected to grow, whatever
the time at which one looks (a supermartingale or less). By Ville's inequality it ever reaches
1 / delta with probability at most delta; so does min(1, 1 / E) as a p-value fall to delta.

- `osrl.evidence.betting`: for arms drawn at random with known probabilities; any rewards in [0, 1];
- `osrl.evidence.counts`: for any sampling rule, from the counts alone; rewards in [0, 1] or Gaussian ones;
  `pairs` for two arms, `tilts` what both are mixed of, `convex` how their minimum is found.

All values are logarithms.
"""
