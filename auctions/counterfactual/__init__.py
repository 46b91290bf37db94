"""What a market's record would have become under another policy, and a bid by stating another worth."""
