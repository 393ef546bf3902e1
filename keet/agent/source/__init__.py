"""The source that a model gets: one module per language or step.

Imports no other part of the agent.
"""
