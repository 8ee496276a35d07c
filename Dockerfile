# The image of Sickbay: one of its commands as an ordinary user, on a root file system that may be read-only.
#
#   docker build -t sickbay .
#
# .dockerignore lets nothing else in, a kubeconfig with a token least of all.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
RUN python -m venv /opt/sickbay
WORKDIR /src
COPY requirements.lock .
RUN /opt/sickbay/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement requirements.lock
COPY . .
RUN /opt/sickbay/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:${PYTHON}-slim
RUN groupadd --gid 10001 sickbay && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp sickbay
COPY --from=build /opt/sickbay /opt/sickbay
# pip has compiled everything; a process that may write nowhere need not try.
ENV PATH=/opt/sickbay/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number: Kubernetes' runAsNonRoot reads no names.
USER 10001:10001
EXPOSE 8471
ENTRYPOINT ["sickbay"]
CMD ["run"]
