"""A folder of images on a Dask cluster, here one of two processes on this machine."""

from pathlib import Path

from distributed import LocalCluster
from skimage.data import astronaut, coffee
from skimage.io import imsave

from napari_gsw.batch.run import run_batch


def main():
    folder = Path("images")
    folder.mkdir(exist_ok=True)
    imsave(folder / "astronaut.png", astronaut()[::4, ::4])
    imsave(folder / "coffee.png", coffee()[::4, ::4])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        rows = run_batch(folder, "labels", preset="general", seed=0, scheduler=cluster.scheduler_address)
    for row in rows:
        print(row["name"], row["status"])


if __name__ == "__main__":  # workers import this file
    main()
