"""The question templates: one module per group of question kinds, each a function of facts."""
