"""The equations of the paper, one file a named part: tensors in, tensors out; no files, no text."""
