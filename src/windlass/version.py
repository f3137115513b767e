"""The version of this program, as package and schema know it."""

__version__ = "0.1.0"
