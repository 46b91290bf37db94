"""Jobs and servers drawn by the settings of the papers."""
