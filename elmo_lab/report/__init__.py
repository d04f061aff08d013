"""`elmo report`, which shows the records of runs as one page: what was measured, how, and on what.

`collect` finds the results in files, `sections` makes a `document.Document` of them, and `page` or `markdown` renders
it. `job` runs all of these.
"""
