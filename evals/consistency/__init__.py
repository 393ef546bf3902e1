"""Does keet contradict itself? What its commands print is checked by `keet verify`."""
