"""How JSON documents are declared, filled and written as text. Imports no module of a command."""
