"""What kind of kernel a launch runs (library, algorithm, instructions, inactive threads), and how
its grid uses the GPU."""
