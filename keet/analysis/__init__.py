"""Analyses a `Profile`: pure functions that read no files and print nothing.

- `diagnosis`: findings of a launch, ranked by gain; uses `account`, `time_model`, `forecast`.
- `launch_view`, `ledger`: what the checks see of a launch, and the evidence that texts may cite.
- `candidates`, `advice`, `model_claims`: possible causes; remedies that fit; claims of a model.
- `hardware`, `roofline`, `replay_gap`, `capture`, `source_lines`, `kernel`, `several_launches`,
  `sass`: one folder per topic.

Imports the catalog, the profile and the evidence; never the explanation or the rendering.
"""
