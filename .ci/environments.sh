# Sourced: where installed things are kept, and how a virtual environment gets there.

cache=${MCP_REF_CI_CACHE:-$HOME/.cache/mcp_ref-ci}
mkdir -p "$cache"
export PIP_DISABLE_PIP_VERSION_CHECK=1

# key TEXT...: a short name that changes when any of the texts does.
key() {
    printf '%s\n' "$@" | sha256sum | cut -c1-12
}

# once DIR COMMAND...: runs the command to fill DIR unless that has been done before; one process at a time.
once() {
    (
        flock 9
        if [ ! -e "$1/complete" ]; then
            rm -rf "$1" && mkdir -p "$1" && "${@:2}" >&2 && touch "$1/complete"
        fi
    ) 9>"$1.lock"
}

# virtual_environment NAME PYTHON PACKAGE...: prints the folder of an environment that holds just these packages.
virtual_environment() {
    local dir
    dir=$cache/$1-$(key "${@:2}")
    once "$dir" install_packages "$dir" "${@:2}" && echo "$dir"
}

install_packages() {
    "$2" -m venv "$1" && "$1/bin/python" -m pip install -qq "${@:3}"
}
