"""What a model is shown of the source: the kernel, what it uses, its launch, its constants."""
