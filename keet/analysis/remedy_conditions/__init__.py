"""Facts about a launch that select a remedy.

One module per topic. A fact is an object with its words, the evidence that it cites, and the test
that decides it. The remedies of keet/findings name these objects, and `keet.diagnosis.advice` asks
them. Most select words only. Where a candidate asks one (`.test(view)` in keet/findings and
keet/analysis/decisions), it also decides whether there is a cause, or its rank.
"""

from keet.analysis.remedy_conditions import (
    global_memory,
    grid,
    instructions,
    on_chip,
    origin,
    waits,
)
from keet.analysis.remedy_conditions.fact import Fact

FACTS = {
    name: value
    for module in (global_memory, grid, instructions, on_chip, origin, waits)
    for name, value in vars(module).items()
    if isinstance(value, Fact)
}
for name, fact_of_name in FACTS.items():
    fact_of_name.id = name
