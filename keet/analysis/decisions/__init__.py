"""Decisions that end in one of several findings, such as bank conflicts or scattered addresses.

One module per decision, whose function returns what was decided and why. Each of the findings asks
it and proposes its own candidate only, so that two findings never claim the same measurement.
"""
