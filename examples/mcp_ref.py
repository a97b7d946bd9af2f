"""Lets the examples run in a clone where nothing is installed: `python3 examples/weather.py`, from any directory.

Python looks for `import mcp_ref` beside the program first, and finds this file; it makes room for the package itself,
which is in the folder above. A program of your own needs no such file: copy the folder `mcp_ref` beside it instead.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
del sys.modules["mcp_ref"]
import mcp_ref  # noqa: E402, F401  # the import that brought us here returns what `sys.modules` has in the end
