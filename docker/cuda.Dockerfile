# Warpsmith for NVIDIA GPUs: docker build -f docker/cuda.Dockerfile -t warpsmith:cuda . && docker run --rm --gpus all --shm-size 8g warpsmith:cuda
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

ENV VIRTUAL_ENV=/opt/venv
ENV PATH=/opt/venv/bin:$PATH
ARG TORCH="torch==2.13.0"
# hadolint ignore=DL3013
RUN python3 -m venv "$VIRTUAL_ENV" && python -m pip install --no-cache-dir "$TORCH"

WORKDIR /opt/warpsmith
COPY pyproject.toml README.md LICENSE ./
COPY src src
# One package more, such as "ray[default]>=2.50,<3" for KubeRay (docker/kuberay.yaml). Links, for a login shell may have another PATH.
ARG ALSO="packaging"
RUN python -m pip install --no-cache-dir . "$ALSO" && rm -rf build \
    && for name in warpsmith ray; do if [ -x "$VIRTUAL_ENV/bin/$name" ]; then ln -s "$VIRTUAL_ENV/bin/$name" /usr/local/bin/; fi; done

RUN useradd --uid 1500 --create-home smith
USER 1500
WORKDIR /home/smith
ENTRYPOINT ["warpsmith"]
CMD ["doctor", "--target", "cuda"]
