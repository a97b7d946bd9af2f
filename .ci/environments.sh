# Sourced by the other scripts: the cache of installed packages, and functions that fill it.

cache=${MCP_REF_CI_CACHE:-$HOME/.cache/mcp_ref-ci}
mkdir -p "$cache"
export PIP_DISABLE_PIP_VERSION_CHECK=1

# key TEXT...: print a short name that changes when a text changes.
key() {
    printf '%s\n' "$@" | sha256sum | cut -c1-12
}

# once DIR COMMAND...: run the command that fills DIR, unless DIR is complete. One process at a time does so.
once() {
    (
        flock 9
        if [ ! -e "$1/complete" ]; then
            rm -rf "$1" && mkdir -p "$1" && "${@:2}" >&2 && touch "$1/complete"
        fi
    ) 9>"$1.lock"
}

# virtual_environment NAME PYTHON PACKAGE...: print the folder of an environment that holds only these packages.
virtual_environment() {
    local dir
    dir=$cache/$1-$(key "${@:2}")
    once "$dir" install_packages "$dir" "${@:2}" && echo "$dir"
}

install_packages() {
    "$2" -m venv "$1" && "$1/bin/python" -m pip install -qq "${@:3}"
}
