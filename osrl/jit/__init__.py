"""Kernels, and the compiler that turns them into machine code."""
