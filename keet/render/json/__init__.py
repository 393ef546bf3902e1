"""JSON documents, one module per command: the types of the document, and the code that fills it.

`shared_types` has the types that several documents use, `schema` lists all documents, and
`encoding` has the code that declares and writes documents.
"""
