"""A photograph: segment it, look at how sure the model is, save a picture of both."""

import matplotlib.pyplot as plt
from skimage.data import coffee
from skimage.segmentation import mark_boundaries

import napari_gsw as gsw

image = coffee()[::2, ::2]
result = gsw.segment(image, preset="photo", seed=0)
print(f"{result.n_clusters} clusters; {result.diagnosis.sentence}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.imshow(mark_boundaries(image, result.labels, color=(1, 0.85, 0.1)))
left.set_title("regions")
right.imshow(result.boundary, cmap="magma")
right.set_title("probability of a boundary")
for ax in (left, right):
    ax.axis("off")
figure.savefig("photograph.png", dpi=110)
