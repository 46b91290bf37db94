"""Jobs whose machines stay the same from start to completion; a ring is one of them."""
