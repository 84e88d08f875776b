#!/bin/sh
# Build .venv: find a Python, create the environment, install what constraints.txt pins. `make` calls it when needed.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The first interpreter that really runs and is new enough (a version manager's shim may exist and yet not run).
find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    die "no Python 3.11 or later found; install one (Debian 12: apt-get install python3 python3-venv) or set PYTHON=/path/to/python3"
}

has_ensurepip() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Debian ships python3 without what venv needs to put pip into the environment.
create_venv() {
    if has_ensurepip "$1"; then
        "$1" -m venv --clear .venv
    elif "$1" -m pip --version >/dev/null 2>&1 && "$1" -m venv --clear --without-pip .venv; then
        "$1" -m pip --python .venv/bin/python install --quiet pip
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "$1 has no ensurepip; installing the system package python3-venv"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
        has_ensurepip "$1" || die "$1 still has no ensurepip; install its venv package or set PYTHON=/path/to/python3"
        "$1" -m venv --clear .venv
    else
        die "$1 cannot create virtual environments; install its venv package (Debian: apt-get install python3-venv) and run make again"
    fi
}

works() {
    [ -x .venv/bin/python ] && .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
if ! works; then
    python=$(find_python)
    say "creating .venv with $("$python" --version)"
    create_venv "$python"
fi
say "installing what constraints.txt pins (once; later runs skip this)"
.venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1' # older ones know no dependency groups
.venv/bin/python -m pip install --quiet --constraint constraints.txt --group server --group dev --editable .
.venv/bin/python -m workers.tokens # unpack the rank files now, so that a broken one is told here
touch .venv/.stamp
