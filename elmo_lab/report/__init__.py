"""`elmo report`: the records of runs in folders as one page: what was measured, how, and on what.

collect (files -> results) -> sections (results -> `document.Document`) -> page (HTML) or markdown; job runs them all.
"""
