#!/bin/sh
# Writes constraints.txt anew: the newest versions that fit together, for every system and Python, each with its hashes.
# The file names no index: the packages come from wherever this machine gets them, and the hashes say whether they are the same.
# Qt is left out: which of its releases a machine can run is a matter of its C library.
set -eu
VENV=${VENV:-.venv}
"$VENV/bin/uv" pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade --quiet \
    --extra pyqt6 --extra batch --extra peers --extra interactive --extra networks \
    --no-emit-package pyqt6 --no-emit-package pyqt6-qt6 --no-emit-package pyqt6-sip \
    --generate-hashes --no-emit-index-url --no-annotate --no-header -o constraints.txt
echo "constraints.txt is up to date; run make clean and make test with it"
