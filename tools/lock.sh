#!/bin/sh
# Write constraints.txt: one resolution that holds for every supported Python, names and versions only.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install --quiet uv
{
    echo '# Exact versions for Python 3.11 and later; `make lock` writes this file from pyproject.toml.'
    .venv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --group server --group dev \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml
} >constraints.new
if grep -n '://' constraints.new; then
    echo 'lock: an address got into constraints.new; it must hold names and versions only' >&2
    exit 1
fi
mv constraints.new constraints.txt
# The adapters' packages have wishes of their own: they are tested in an environment of their own.
{
    echo '# Exact versions of what the adapters adapt to; `make lock` writes this file from pyproject.toml.'
    .venv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --group adapters \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml
} >constraints.new
mv constraints.new constraints-adapters.txt

