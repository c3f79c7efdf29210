"""Hypothesis profiles: the same examples on every machine, so that a failure can be repeated.

``pytest --hypothesis-profile explore`` looks further, with new random examples each time.
"""

import os

from hypothesis import settings

settings.register_profile("local", deadline=None, derandomize=True)
settings.register_profile("ci", parent=settings.get_profile("local"), print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("ci" if os.environ.get("CI") else "local")
