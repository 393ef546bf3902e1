"""Measures whether an explanation helps a model to write faster code: prompts, programs and scores;
the GPU part is gpu/."""
