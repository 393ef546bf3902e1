"""The actions of `keet eval`: one module each, as those of keet/cli are."""
