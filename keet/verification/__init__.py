"""Check the numbers of texts by others against a report.

keet's own sentences print their numbers from evidence (`keet/evidence`), and a model's references
are resolved by `keet/prose`. `verify` checks any text, in three steps of one folder each: `text`
(what the text claims), `values` (what the report and keet say), `checks` (whether they agree). A
step imports only the steps before it.
"""
