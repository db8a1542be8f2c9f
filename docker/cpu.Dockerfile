# Warpsmith for CPUs: docker build -f docker/cpu.Dockerfile -t warpsmith . && docker run --rm --shm-size 2g warpsmith
FROM python:3.11-slim-bookworm

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

# torch changes rarely and is by far the largest part: a layer of its own, without CUDA's libraries.
ARG TORCH="torch==2.13.0"
ARG TORCH_INDEX="https://download.pytorch.org/whl/cpu"
# hadolint ignore=DL3013
RUN python -m pip install --no-cache-dir --index-url "$TORCH_INDEX" "$TORCH"

WORKDIR /opt/warpsmith
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip install --no-cache-dir . && rm -rf build

RUN useradd --uid 1500 --create-home smith
USER 1500
WORKDIR /home/smith
ENTRYPOINT ["warpsmith"]
CMD ["demo"]
