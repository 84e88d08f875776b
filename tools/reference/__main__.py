"""Writes the page to standard output."""

import sys

from tools.reference import page

sys.stdout.write(page())
