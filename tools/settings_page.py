"""Prints docs/settings.md from the declaration of the settings."""

from __future__ import annotations

from napari_gsw.core.settings import SECTIONS, setting_fields
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS, describe_default

# What the window asks beside the choice of the image.
ASKED = "image"


def main() -> None:
    print("# Settings\n")
    print("<!-- Made from the declaration in napari_gsw.core.settings by `make docs`; do not edit. -->\n")
    print("Every setting is a keyword of `gsw.segment` and `gsw.prepare`, an option of `napari-gsw segment`")
    print(
        "(`--site-size 100`, or `--set site_size=100`), and is saved with every result. In the window most are in the"
    )
    print("section of the same name, under the words of the second column.")
    for section in SECTIONS:
        print(f"\n## {section.capitalize()}\n")
        print("| setting | in the window | default | allowed | what it does |\n|---|---|---|---|---|")
        for name, setting in setting_fields().items():
            if setting.section == section:
                symbol = f" ({setting.symbol})" if setting.symbol else ""
                allowed = setting.allowed.replace("|", "\\|")
                shown = "" if section == ASKED else setting.title or name.replace("_", " ").capitalize()
                print(f"| `{name}`{symbol} | {shown} | {describe_default(name)} | {allowed} | {setting.help} |")
    print("\n## Presets\n")
    names = ", ".join(f"`{name}`" for name in PRESETS)
    print(f"A preset changes some of the defaults, as the tables say in brackets: {names}.")
    print(f"`{DEFAULT_PRESET}` is used when none is named.")


if __name__ == "__main__":
    main()
