"""Evals of the analyst: one module per question (stability, account, coverage, manual readings),
plus the parameter fit."""
