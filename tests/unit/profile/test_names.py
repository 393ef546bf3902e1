"""Short kernel names: readable, and the same in every report."""

from hypothesis import given
from hypothesis import strategies as st

from keet.profile import short_name
from tests.rows import each_row

CUTLASS = "cutlass_80_tensorop_s16816gemm_bf16_128x128_32x5_tn_align8"


@each_row("demangled, short", [
    ("transpose_rows(const float *, float *, int)", "transpose_rows"),
    ("void tour::transpose_tiles<float, (int)32>(const T1 *, T1 *, int)", "transpose_tiles<float, 32>"),
    ("void at::native::fill<4, at::F<float>, at::A<char*, 1>>(int, at::F<float>)",
     "fill<4, F<…>, A<…>>"),
    (f"void cutlass::Kernel2<{CUTLASS}>(T1::Params)", f"Kernel2<{CUTLASS}>"),
    ("void (anonymous namespace)::k<float>(int)", "k<float>"),
    ("ns::(anonymous namespace)::f(int)", "f"),
    ("void at::native::<unnamed>::grid_stride<float, (int)4, void x<y>(z)>(int)",
     "grid_stride<float, 4, void x<…>>"),
    ("_kernel_0d1d2d3de", "_kernel_0d1d2d3de"),
    ("void squareSort<int, &cmp<int>>(T1 *, int)", "squareSort<int, &cmp<…>>"),
    ("softmax_rows", "softmax_rows"),
    ("copy_blocked[v1,cw51cXTLSUwv1sDUaKth](Array<long long, 1, C, mutable, aligned>)", "copy_blocked"),
])  # fmt: skip
def test_short_names_fold_template_arguments(demangled: str, short: str) -> None:
    assert short_name(demangled) == short


@given(st.text())
def test_any_text_is_a_name(text: str) -> None:
    """Names come from files: for any text, the short name exists and is not longer."""
    assert len(short_name(text)) <= len(text) + 10
