"""The HTTP kit: what every REST operation shares, whatever it is about."""
