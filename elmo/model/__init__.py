"""The equations of the paper, one file per named part: tensors in, tensors out; no files, no text."""
