"""The results of all commands: what analyses return, JSON prints, `import keet` gives, and pages
are made from. Plain dataclasses; imports evidence and units only."""
