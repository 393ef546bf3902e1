"""How far are keet's speed-up forecasts from what was measured? NVIDIA's estimates beside them."""
