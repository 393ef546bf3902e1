"""Writes the table of README.md from each sample.toml (`make docs`); a test compares it."""

from __future__ import annotations

from kernels_samples.samples import HERE, Sample, load_samples

README = HERE / "README.md"
START, END = "<!-- table: made by make docs -->\n", "<!-- end of table -->"


def table() -> str:
    rows = [
        "| sample | computes | planted (first, then) | speed-up | kinds |",
        "|---|---|---|---|---|",
    ]
    rows += map(_row, sorted(load_samples(), key=lambda sample: (sample.healthy, sample.name)))
    return "\n".join(rows) + "\n"


def _row(sample: Sample) -> str:
    truth = sample.truth
    planted = ", ".join(f"`{finding}`" for finding in (truth.dominant, *truth.others))
    if sample.measured is None:
        speedup = "not measured"
    else:
        low, high = sample.measured.speedup_range
        speedup = f"{sample.measured.speedup:.2f} ({low:.2f} to {high:.2f})"
    kinds = [*sample.kinds, *(["triton"] if sample.language == "triton" else [])]
    return f"| {sample.name} | {sample.title} | {planted} | {speedup} | {', '.join(kinds)} |"


def readme_text() -> str:
    """README.md with the new table."""
    before, _, rest = README.read_text(encoding="utf-8").partition(START)
    return before + START + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    README.write_text(readme_text(), encoding="utf-8")
