"""How busy each hardware unit was, and how near to its peak.

Imports neither the time model nor the diagnosis.
"""
