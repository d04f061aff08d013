"""The laboratory's verbs, which join `elmo` by the entry points `elmo.verbs`."""
