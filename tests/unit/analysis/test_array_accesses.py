"""Which accesses of a line are of a kind."""

from keet.analysis.source_lines import AccessKind, accesses, is_gather
from tests.rows import each_row

TEXT = """
__global__ void k(const float* x, const int* columns, float* out, int n) {
    __shared__ float products[256];
    float point[4], other[2];
    const unsigned long long key[2] = {1, 2};
    return a[0];
}
"""


@each_row(
    ("line", "kind", "named"),
    [
        # rate_table, sparse_apply, xs_lookup: the gather, not what is read in order
        ("out[i] = amount[i] * rate[code[i]];", "scattered global", ["rate[code[i]]"]),
        ("products[k] = values[k] * x[columns[k]];", "scattered global", ["x[columns[k]]"]),
        ("point[i] = grid[nuclide[i] * n];", "scattered global", ["grid[nuclide[i] * n]"]),
        ("out[x * n + y] = in[y * n + x];", "scattered global",
         ["out[x * n + y]", "in[y * n + x]"]),
        ("out[i] = in[i];", "scattered global", ["out[i]", "in[i]"]),
        ("point[j] = products[i * 2];", "shared", ["products[i * 2]"]),
        ("out[i] = point[k] + key[0];", "local", ["point[k]", "key[0]"]),
        ("out[i] = point[k];", None, ["out[i]", "point[k]"]),
        ("point[0] = point[1];", "scattered global", ["point[0]", "point[1]"]),
        ("int i = 0;", "scattered global", []),
    ],
)  # fmt: skip
def test_accesses_of_a_kind(line: str, kind: AccessKind | None, named: list[str]) -> None:
    assert accesses(line, TEXT, kind) == named


def test_a_gather_reads_its_index() -> None:
    assert is_gather(["x[columns[k]]"])
    assert not is_gather(["x[k * n]"])
    assert not is_gather(["x[columns[k]]", "y[k]"])
    assert not is_gather([])


@each_row("odd", ["a<" * 5000, "a<b> " * 5000, "__shared__ " * 5000, "a[" * 5000])
def test_malformed_sources_terminate(odd: str) -> None:
    """Patterns that try every way to read such a line would not."""
    assert accesses(f"b[i] = {odd}", f"{odd}\n" * 20, "scattered global")
