"""Analyses a `Profile`: pure functions that read no files and print nothing.

- `launch_view`, `ledger`: what findings see of a launch, and the evidence that texts may cite.
- `account`, `time_model`: parts of the time, and what a fix would leave of it.
- `candidate`, `decisions`, `remedy_conditions`: a possible cause; what several findings share;
  what selects a remedy.
- `hotspots`: costs by source line. `replay_gap`: the time under ncu's replay, and in the run.
- `archetype`, `library`: what kind of kernel it is. `coverage`, `recapture`: what the report
  contains, and the command that captures what is missing.
- `amounts`, `hardware`, `roofline`, `parallelism`, `several_launches`, `machine_code`: one folder
  per topic.

Imports the catalog, the profile and the evidence; never findings, the explanation or the rendering.
"""
