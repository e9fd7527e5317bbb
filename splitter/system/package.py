"""The folder of splitter's own code."""

import os

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__))
