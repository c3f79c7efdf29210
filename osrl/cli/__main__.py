"""`python -m osrl.cli`."""

import sys

from osrl.cli import main

sys.exit(main())
