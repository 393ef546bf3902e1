"""How documents are declared, filled and written as text. Knows no command."""
