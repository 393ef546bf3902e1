"""What several formats print: one module per topic. Never imports a format, rich or pydantic."""
