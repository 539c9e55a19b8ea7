#!/bin/sh
# Sets up what is missing, and nothing else.
#   setup.sh python   a virtual environment with the package and its development tools
#   setup.sh screen   the system libraries that Qt needs, and a virtual screen
# System packages come by apt when this user may install them; otherwise the one line to run is printed.
set -eu
VENV=${VENV:-.venv}
PYTHON=${PYTHON:-python3}

LIBRARIES="libgl1 libegl1 libglib2.0-0 libxkbcommon0 libdbus-1-3 libfontconfig1 libgomp1 xvfb xauth libxcb-cursor0 \
libxkbcommon-x11-0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0 libxcb-image0 libxcb-render-util0 libxcb-randr0"

apt_install() {
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Please install with your system's package manager: $*" >&2
        return 1
    fi
    if [ "$(id -u)" = 0 ]; then
        admin=""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        admin="sudo"
    else
        echo "System packages are missing. Please run, then try again:" >&2
        echo "  sudo apt-get install -y $*" >&2
        return 1
    fi
    echo "Installing system packages: $*"
    $admin apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $admin apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Compiled now, by all cores: the tests start many processes, and some machines forbid Python to do it as it imports.
install_package() {
    UV_PYTHON_DOWNLOADS=never "$VENV/bin/uv" pip install --quiet --compile-bytecode --python "$VENV/bin/python" \
        --resolution "${RESOLUTION:-highest}" "$@" --editable ".[${QT:-pyqt6},batch,peers,interactive,networks]" --group dev
}

setup_python() {
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "napari-gsw needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version 2>&1)." >&2
        echo "Choose another one with: make PYTHON=python3.12 ..." >&2
        exit 1
    }
    if [ ! -x "$VENV/bin/python" ]; then
        # Debian splits venv from Python; without it the folder is made but pip is not.
        "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
        echo "Making a virtual environment in $VENV"
        "$PYTHON" -m venv "$VENV"
    fi
    echo "Installing napari-gsw and its development tools"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "uv>=0.5"
    # LOCKED=no takes the newest versions that there are; RESOLUTION=lowest-direct the oldest that are allowed.
    if [ "${LOCKED:-yes}" = no ]; then
        install_package
    else
        install_package --constraint constraints.txt || {
            echo "The locked versions do not install here; taking the newest that do" >&2
            install_package
        }
    fi
}

setup_screen() {
    command -v dpkg-query >/dev/null 2>&1 || return 0
    missing=""
    for name in $LIBRARIES; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt_install $missing
}

case "${1:-}" in
python) setup_python ;;
screen) setup_screen ;;
*) echo "usage: setup.sh python|screen" >&2; exit 2 ;;
esac
