"""Generalised likelihood ratios, and the transportation costs that they are made of."""
