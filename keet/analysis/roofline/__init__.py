"""The roofline of a launch: achieved rates against the peaks. One module per kind of ceiling."""
