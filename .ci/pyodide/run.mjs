// run.mjs FOLDER PACKAGES ARGUMENTS...: run pytest in Pyodide. FOLDER has the tests and the package under test. PACKAGES
// is a folder in which pip has installed pytest.
import { loadPyodide } from "pyodide";

const [folder, packages, ...argv] = process.argv.slice(2);
const python = await loadPyodide();
python.mountNodeFS("/work", folder);
python.mountNodeFS("/packages", packages);
python.globals.set("arguments", python.toPy(argv));
process.exit(python.runPython(`
import os, sys

print("Python", sys.version, "on", sys.platform)
os.chdir("/work")
os.environ.update(MCP_REF_TRANSPORTS="memory", MCP_REF_JUDGE="no")
sys.dont_write_bytecode = True
sys.path[:0] = ["/work", "/packages"]

import pytest
int(pytest.main(["-q", "-p", "limited_system", "-p", "no:cacheprovider", *arguments]))
`));
