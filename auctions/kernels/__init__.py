"""Compile the kernels that open markets need, in separate processes."""
