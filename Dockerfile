# Headless segmentation of many images: docker build -t napari-gsw . && docker run -v "$PWD:/data" napari-gsw batch images -o labels
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir ".[batch,networks]"
# Kernels are compiled while the image is built, into a cache that every user of the container may read.
ENV NUMBA_CACHE_DIR=/opt/napari-gsw
RUN python -c "import napari_gsw; napari_gsw.warm_up()" && chmod -R a+rwX /opt/napari-gsw
WORKDIR /data
ENTRYPOINT ["napari-gsw"]
CMD ["--help"]
