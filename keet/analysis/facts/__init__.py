"""Facts about a launch that select a remedy: true, false or unknown.

One module per topic. A fact is a function with `@fact`: its words, the evidence that it cites, and
the test. The remedies of keet/findings name these objects; `keet.diagnosis.advice` asks them.
"""
