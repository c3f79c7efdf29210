"""Anytime-valid evidence: numbers that may be evaluated after every sample.

An e-process starts at 1 and, while its null hypothesis is true, is not expected to grow, whatever the time at which
it is evaluated (a supermartingale or less). By Ville's inequality it ever reaches 1 / delta with probability at most
delta; so does min(1, 1 / E) as a p-value fall to delta.

- `betting`: for arms drawn at random with known probabilities; any rewards in [0, 1];
- `counts`: for any sampling rule, from the counts alone; rewards in [0, 1] or Gaussian ones; `pairs`: the same for two
  arms; `exponential_tilts`: the tilts that both mix;
- `processes`: all of them as objects that can be used by themselves;
- `intervals`: confidence intervals of means that hold at all times;
- `missingness`, `drift`: tests of the assumptions, that trials are not left out by arm and that means stay the same.

All values are logarithms.
"""
