"""Step 4: why the time changed: findings, parts of the account, units and source lines."""
