"""Speed and memory, as ratios that hold on any machine: ``napari-gsw bench``."""
