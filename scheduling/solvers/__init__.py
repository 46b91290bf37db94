"""Tools of several algorithms that no paper defines: integer programs, time limits, compiled code."""
