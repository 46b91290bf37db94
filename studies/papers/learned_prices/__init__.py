"""Prices learned in one period and judged in the next."""
