"""Evaluates a model's claims about a launch with keet's own time model.

A model that reads the source can know what counters do not show: how many bytes are needed, which
work is redundant, which precision suffices. It states that as a `WorkClaim`; keet checks it against
the account and computes the floor, the next limiter and the forecast. `evaluation` calls the module
of each kind of claim, the finding's `absent` refutes, `ranking` merges.
"""
