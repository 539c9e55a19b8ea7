#!/bin/sh
# Runs a command on a virtual screen of its own.
set -eu
exec xvfb-run --auto-servernum --server-args='-screen 0 1600x1000x24' "$@"
