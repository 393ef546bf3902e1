"""Check the numbers of texts: keet's own against their evidence, texts by others against a report.

A model's references are resolved and checked by `keet/prose`.
`grounding` and `explanation_check` check keet's own texts. `verify` checks any text, in three steps
of one folder each: `text` (what the text claims), `values` (what the report and keet say), `checks`
(whether they agree). A step imports only the steps before it.
"""
