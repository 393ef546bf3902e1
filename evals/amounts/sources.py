"""Places and constants of the CUDA sources, so that the truth never repeats a line's number."""

import re
from pathlib import Path

HERE = Path(__file__).parent


class Source:
    """A CUDA program: its constants, and lines of its kernels found by their text."""

    def __init__(self, path: Path) -> None:
        self.lines = path.read_text().splitlines()
        self.sizes: dict[str, int] = {}
        for line in self.lines:
            if line.startswith("constexpr int "):
                for name, value in re.findall(r"(\w+) = ([^,;]+)", line):
                    # Arithmetic of numbers and earlier names, as C++ reads it.
                    self.sizes[name] = int(eval(value, {"__builtins__": {}}, dict(self.sizes)))

    def kernels(self) -> list[str]:
        """Names of the kernels in the order of the file."""
        head = re.compile(r"^__global__ void (?:__launch_bounds__\(\w+\) )?(\w+)")
        return [found[1] for line in self.lines if (found := head.match(line))]

    def body(self, kernel: str) -> range:
        """Numbers of a kernel's lines, from its head to its closing brace."""
        start = next(
            number
            for number, line in enumerate(self.lines, start=1)
            if re.match(rf"__(global|device)__ .*\b{kernel}\(", line)
        )
        end = next(n for n in range(start, len(self.lines) + 1) if self.lines[n - 1] == "}")
        return range(start, end + 1)

    def line(self, kernel: str, text: str, nth: int = 1) -> int:
        """The number of the nth line of a kernel that has a text, which ends at a word's end."""
        sought = re.compile(re.escape(text) + r"(?!\w)")
        found = [number for number in self.body(kernel) if sought.search(self.lines[number - 1])]
        return found[nth - 1]

    def members(self, struct: str) -> list[str]:
        """Names of a struct's pointer members, in order; none if the file has no such struct."""
        if f"struct {struct} {{" not in self.lines:
            return []
        start = self.lines.index(f"struct {struct} {{")
        inside = self.lines[start + 1 : self.lines.index("};", start)]
        return [line.split()[-1].strip("*;") for line in inside if "*" in line]

    def pointers(self, kernel: str) -> list[str]:
        """Names of a kernel's pointers, in order: parameters, and members as `parameter.member`."""
        text = " ".join(self.lines[number - 1] for number in self.body(kernel))
        text = text[text.index(f"{kernel}(") :]
        head = text[text.index("(") + 1 : text.index(") {")]
        names = []
        for part in head.split(","):
            name = part.split()[-1].lstrip("*")
            if "*" in part:
                names.append(name)
            else:
                names += [f"{name}.{member}" for member in self.members(part.split()[0])]
        return names
