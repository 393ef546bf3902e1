"""The actions of `keet eval`: one module per action, as keet/cli has one per command."""
