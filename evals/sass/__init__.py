"""How right the dataflow analysis over SASS is."""
