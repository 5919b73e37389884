"""Lets the architecture tests share their reader of the source."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
