"""Computes the exact number of distinct bytes that kernels load, by replaying their index
expressions.

The replay is a C++ program (`*.cc`) that goes through all threads of a launch one by one, on the
CPU. It needs a C++20 compiler and about half a minute.
"""
