"""Check the numbers of texts by others against a report.

keet's own sentences print their numbers from evidence (`keet/evidence`), and a model's references
are resolved by `keet/prose`. `verify` checks any text, in three steps:

1. what the text claims: `sentences`, `numbers`, `metric_names`, `subjects`, `claims`, `scope`,
   `topics`. Of the report, only names of launches and files are used.
2. what the report, or keet's analysis of it, has under these names: the modules `*_values`.
3. whether they agree: `verdicts` and the modules `*_check`.

`verify.verify_against` is the entry of `keet verify`; with two reports, the text is also compared
with what `keet diff` prints of them.
"""
