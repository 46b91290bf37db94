"""Figures: pure functions from arrays to Plotly documents, and the tables behind them. No database, no clock.

Every module has `figure` (a document of `data` and `layout` that `Plotly.react` takes as it is) and `table` (header
and rows of the CSV file beside the chart), made from the same reading. Colours of text and grid are the page's
business: they follow the theme.
"""
