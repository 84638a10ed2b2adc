# The command esdedup, and with it the proxy: docker build --tag esdedup .
#
# EXTRAS are the extras to install: docker build --build-arg EXTRAS=proxy,parquet,jieba ...
# The container needs no writable file system but /tmp: docker run --read-only --tmpfs /tmp ...
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=proxy
COPY . /source
# Everything that is only needed to install stays in this stage, pip too.
RUN python -m venv /tools \
    && python -m venv --without-pip /opt/esdedup \
    && /tools/bin/pip --python /opt/esdedup install --no-cache-dir "/source[${EXTRAS}]"

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="esdedup" \
      org.opencontainers.image.description="Near-duplicate search for Elasticsearch and OpenSearch" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/esdedup /opt/esdedup
# The image has its bytecode, and the container may have no place to write more.
ENV PATH=/opt/esdedup/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
# A number, as Kubernetes can tell of numbers only that they are not root.
RUN install --directory --owner=10001 --group=10001 /data
USER 10001:10001
# For local files: a named volume that is mounted here belongs to the user above.
WORKDIR /data
EXPOSE 9280
ENTRYPOINT ["esdedup"]
CMD ["--help"]
