"""What algorithms share and no paper defines: integer programs, time limits, compiled code."""
