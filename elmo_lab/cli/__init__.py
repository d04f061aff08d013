"""The laboratory's verbs, which the entry points `elmo.verbs` add to the command `elmo`."""
