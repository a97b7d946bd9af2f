"""A helper for the examples: in a clone, `python3 examples/weather.py` runs without an installation of `mcp_ref`.

When an example imports `mcp_ref`, Python first looks beside the example and finds this file, which then imports the
package from the folder above. Your own program does not need this file if the folder `mcp_ref` is beside the program.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
del sys.modules["mcp_ref"]
import mcp_ref  # noqa: E402, F401  # the example's import returns the package that is now in `sys.modules`
