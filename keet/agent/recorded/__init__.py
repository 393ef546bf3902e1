"""Replies from files: transcripts, replay, cache, scripts. Imports only `model` and `privacy`."""
