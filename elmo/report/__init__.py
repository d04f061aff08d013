"""`elmo report`: everything that is found in folders of results, as one page: what was measured, how, and on what.

collect (files -> results) -> sections (results -> `document.Document`) -> page (HTML) or markdown; job does all of it.
"""
