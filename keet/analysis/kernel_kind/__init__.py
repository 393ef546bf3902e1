"""What kind of kernel a launch runs: library, algorithm, language, instructions."""
