"""The agent: a model that inspects a report with keet's tools and is held to the evidence."""
