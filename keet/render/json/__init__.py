"""JSON documents, one module per command: its types, and how a result becomes a document.

`shared_types` has the types that several documents use, `schema` lists all documents, and
`encoding` knows how documents are declared and written.
"""
