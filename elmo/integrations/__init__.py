"""Thin wrappers for other frameworks, and stand-ins for older packages."""

from elmo.integrations.shims import install_shims as install_shims
