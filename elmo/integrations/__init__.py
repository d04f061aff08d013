"""Other people's frameworks and the packages that this one stands in for; each file is a thin wrapper."""

from elmo.integrations.shims import install_shims as install_shims
