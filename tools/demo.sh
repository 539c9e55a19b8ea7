#!/bin/sh
# With a screen, opens napari on a sample with the widget ready to run; without one, segments the sample into pictures.
set -eu
VENV=${VENV:-.venv}
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    sh tools/setup.sh screen
    echo "Opening napari; press Run in the panel on the right"
    exec "$VENV/bin/napari-gsw" gui sample:astronaut
fi
"$VENV/bin/napari-gsw" segment sample:astronaut --output demo-output --save-plot
echo "No screen here. Look at overlay.png, trace.png and uncertainty.png in demo-output/"
