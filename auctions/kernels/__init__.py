"""Kernels that open markets need are compiled by processes of their own."""
