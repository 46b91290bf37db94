"""Operations that change a market: submissions, decisions, passing slots, ending jobs, servers and policies."""
