"""What is promised, in numbers and in words."""

from sottovoce.privacy.budget import Budget

__all__ = ["Budget"]
