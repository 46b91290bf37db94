"""What may be read of a market: prices, jobs, charts' rows, certificates, publications."""
