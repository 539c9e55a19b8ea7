"""What is shown: current or best, uncertainty, superpixels, and a moment of the past."""

from __future__ import annotations

from qtpy.QtWidgets import QButtonGroup, QCheckBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_gsw.widgets.defaults import preference
from napari_gsw.widgets.session import Session
from napari_gsw.widgets.small_parts import push_button


class Display(QWidget):  # type: ignore[misc]
    """The rows below the trace."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._viewing_row())
        column.addLayout(self._show_row())
        column.addLayout(self._layers_row())
        session.layer_gone.connect(self._layer_gone)
        self._clouds_changed()

    def _viewing_row(self) -> QWidget:
        self.viewing = QWidget()
        row = QHBoxLayout(self.viewing)
        row.setContentsMargins(0, 0, 0, 0)
        self.viewing_text = QLabel()
        self.back_button = push_button("Back to live", "Show the chain as it is now", self.session.live_again)
        self.from_here = push_button(
            "Go on from here", "Continue the chain from this state", self.session.go_on_from_view
        )
        row.addWidget(self.viewing_text, 1)
        row.addWidget(self.back_button)
        row.addWidget(self.from_here)
        self.viewing.setVisible(False)
        return self.viewing

    def _show_row(self) -> QHBoxLayout:
        self.shows = QButtonGroup(self)
        first = QHBoxLayout()
        first.setSpacing(4)
        first.addWidget(QLabel("Show"))
        for name, tip in (
            ("current", "The state that the chain is in now"),
            ("best", "The state of highest log posterior so far; what a finished run shows"),
        ):
            button = QPushButton(name.capitalize())
            button.setCheckable(True)
            button.setChecked(name == "current")
            button.setToolTip(f"{tip} (Ctrl+Alt+D)")
            button.setProperty("show", name)
            self.shows.addButton(button)
            first.addWidget(button, 1)
        self.shows.buttonClicked.connect(lambda button: self.session.set_show(button.property("show")))
        return first

    def _layers_row(self) -> QHBoxLayout:
        self.clouds = {
            "boundary": _check("Boundary", "How probable a boundary is, pixel by pixel; known after the burn-in"),
            "entropy": _check("Entropy", "How unsure the model is of each site, in bits; known after the burn-in"),
        }
        self.show_sites = _check("Superpixels", "Outlines of the sites that are sampled")
        second = QHBoxLayout()
        second.setSpacing(10)
        for name, box in self.clouds.items():
            box.setChecked(bool(preference(name)))
            box.toggled.connect(self._clouds_changed)
            second.addWidget(box)
        self.show_sites.toggled.connect(self._sites_toggled)
        second.addWidget(self.show_sites)
        second.addStretch()
        return second

    def refresh(self) -> None:
        """Follow the session."""
        session = self.session
        for button in self.shows.buttons():
            button.setChecked(button.property("show") == session.show)
        self.viewing.setVisible(session.viewing is not None)
        if session.viewing is not None:
            self.viewing_text.setText(f"Viewing sweep {session.viewing:,}")

    def _clouds_changed(self) -> None:
        self.session.set_wanted({name for name, box in self.clouds.items() if box.isChecked()})

    def _sites_toggled(self, on: bool) -> None:
        seg, position = self.session.segmentation, self.session.position
        if seg is None or position is None:
            return
        if seg.layers.sites is not None:
            seg.layers.sites.visible = on
        elif on:
            for place, part in seg.parts.items():
                seg.layers.show_sites(place, part.sites)

    def _layer_gone(self, name: str) -> None:
        box = self.show_sites if name == "sites" else self.clouds[name]
        box.blockSignals(True)
        box.setChecked(False)
        box.blockSignals(False)


def _check(text: str, tip: str) -> QCheckBox:
    box = QCheckBox(text)
    box.setToolTip(tip)
    return box
