"""Decisions that end in one of several findings, such as bank conflicts or scattered addresses.

One module per decision: what was decided and why, or the candidate itself where the findings differ
only by a limit (`occupancy`). Each finding proposes its own candidate only, so that two findings
never claim the same measurement.
"""
