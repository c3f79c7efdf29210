"""Kernels, and the compiler that turns them into machine code."""

from osrl.jit.kernels import kernel, kernel_in_place

__all__ = ["kernel", "kernel_in_place"]
