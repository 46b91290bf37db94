"""What changes a market: submissions, decisions, slots that pass, jobs that end, servers, policies."""
