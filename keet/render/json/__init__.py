"""JSON Schemas of the documents. The documents themselves write JSON: see keet/documents."""
