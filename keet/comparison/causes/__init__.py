"""The last step: why the time changed: findings, parts of the account, units and source lines."""
