"""The equations of the paper, one file per named part. They take and return tensors, and know no files and no text."""
