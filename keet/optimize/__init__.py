"""`keet optimize`: profile, explain, propose, build, check, measure, compare, keep or drop, again.

`engine` runs the rounds of one task. The proposer, the runner and the prompt builder are passed in,
so that `evals` can run the same engine with other prompts and another check. Every step leaves a
file (`journal`), from which a run that was killed continues. `measure` is the script that builds
and times programs, here or on another machine; `runners` has what it is given and what it answers.
"""
