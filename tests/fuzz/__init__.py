"""A fuzzer for every command that reads a report: `make fuzz`, or `python -m tests.fuzz --help`.

A mutant is an original (a committed report, export or run table), the kinds of damage done to it,
and a seed. The same three give the same bytes again, so no mutant is kept as a file: the ones that
once showed a bug are listed in `seeds.toml`, and tests/test_fuzz.py replays them.

| module | knows |
|---|---|
| `bad_values` | numbers that no counter can have, and texts that no terminal wants |
| `report_tree` | a report taken apart into messages, and put together again |
| `report_damage`, `byte_damage`, `text_damage` | the kinds of damage: to messages, to bytes, to CSV and JSON |
| `mutants` | the originals, and a mutant from an original and a seed |
| `commands` | which command lines a mutant goes through |
| `trial` | one command line in this process, and what counts as a fault of it |
| `campaign` | workers, counts, the table at the end |

Kinds of damage are looked up by name and have a random generator of their own: a new kind does not
change what older seeds make. To change a kind, give it a new name.
"""
