# The command esdedup with its proxy: docker build --tag esdedup .
#
# Choose the extras to install: docker build --build-arg EXTRAS=proxy,parquet,jieba ...
# The container needs no writable file system but /tmp: docker run --read-only --tmpfs /tmp ...
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=proxy
COPY . /source
# What is needed only to install, such as pip, stays in this stage.
RUN python -m venv /tools \
    && python -m venv --without-pip /opt/esdedup \
    && /tools/bin/pip --python /opt/esdedup install --no-cache-dir "/source[${EXTRAS}]"

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="esdedup" \
      org.opencontainers.image.description="Near-duplicate search for Elasticsearch and OpenSearch" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/esdedup /opt/esdedup
# pip compiled the bytecode, and the container can be read-only.
ENV PATH=/opt/esdedup/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
# Kubernetes can check only of a number that it is not root.
RUN install --directory --owner=10001 --group=10001 /data
USER 10001:10001
# A named volume mounted here belongs to the user above.
WORKDIR /data
EXPOSE 9280
ENTRYPOINT ["esdedup"]
CMD ["--help"]
