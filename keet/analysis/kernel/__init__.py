"""What kind of kernel a launch runs: its library, algorithm, instructions and inactive threads."""
