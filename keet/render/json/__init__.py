"""JSON documents: their types, and how results become one. `documents` has the shared types."""
