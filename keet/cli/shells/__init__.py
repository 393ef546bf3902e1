"""Completion scripts for shells, made from the parsers of the commands.

A script holds every word, so that a key press starts no Python.
"""
