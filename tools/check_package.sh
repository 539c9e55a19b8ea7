#!/bin/sh
# Builds what is released, checks it, and installs the wheel alone into a fresh environment, where napari has to show
# every widget; all of it in a folder that is removed afterwards. A screen is needed.
set -eu
venv=${VENV:-.venv}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
"$venv/bin/uv" build --quiet --out-dir "$scratch/dist"
"$venv/bin/uv" tool run --quiet twine check --strict "$scratch"/dist/*.whl "$scratch"/dist/*.tar.gz
"$venv/bin/uv" tool run --quiet check-wheel-contents "$scratch"/dist/*.whl
"$venv/bin/uv" venv --quiet --python "$venv/bin/python" "$scratch/fresh"
wheel=$(ls "$scratch"/dist/*.whl)
"$venv/bin/uv" pip install --quiet --python "$scratch/fresh/bin/python" "napari-gsw[pyqt6] @ file://$wheel" npe2
"$scratch/fresh/bin/npe2" validate napari-gsw
"$scratch/fresh/bin/napari-gsw" --version
cd "$scratch"
xvfb-run --auto-servernum --server-args='-screen 0 1600x1000x24' fresh/bin/python - <<'SCRIPT'
import napari
import npe2

viewer = napari.Viewer()
viewer.open_sample("napari-gsw", "mosaic")
names = [widget.display_name for widget in npe2.PluginManager.instance().get_manifest("napari-gsw").contributions.widgets]
for name in names:
    viewer.window.add_plugin_dock_widget("napari-gsw", name)
print(f"napari {napari.__version__} shows {', '.join(names)}")
viewer.close()
SCRIPT
