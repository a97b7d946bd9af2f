"""A helper for the examples: in a clone, `python3 examples/weather.py` runs without an installation of `mcp_ref`.

When an example imports `mcp_ref`, Python first looks beside the example and finds this file, which then imports the
package from the folder above. Your own program does not need this file if the folder `mcp_ref` is beside the program.
"""

import atexit
import os
import sys
from pathlib import Path


@atexit.register
def flush_output() -> None:
    """Flush the output before Python does, which would print an error if `head` has closed the pipe."""
    try:
        print(end="", flush=True)  # unlike `sys.stdout.flush()`, it also works if the output is closed
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
del sys.modules["mcp_ref"]
import mcp_ref  # noqa: E402, F401  # the example's import returns the package that is now in `sys.modules`
