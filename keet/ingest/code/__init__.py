"""Code and source of launches: cubins (ELF, DWARF), build information, source folders."""
