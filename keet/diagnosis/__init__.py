"""Diagnoses a launch: the candidates of keet/findings ranked by the time that a fix would save.

`diagnosis` computes gains and ranges and ranks, `advice` chooses remedies, `claim_evaluation`
evaluates what a model states. Above the findings, below the explanation.
"""
