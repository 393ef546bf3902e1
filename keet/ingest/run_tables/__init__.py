"""Tables of a whole run on disk: keet's `.run.json`, and CSV by people or Nsight Systems."""
