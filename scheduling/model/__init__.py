"""What is asked and answered: bids, utilities, inventories, schedules, decisions; and how input is checked."""
