#!/bin/sh
# Segments a sample: in napari where there is a screen, otherwise into pictures in demo-output/.
set -eu
VENV=${VENV:-.venv}
"$VENV/bin/napari-gsw" segment sample:astronaut --output demo-output --save-plot
echo "Look at demo-output/overlay.png, trace.png and uncertainty.png"
