# First version, NOT BUILT YET: written on a machine without a container engine. The AWS release builds, tests and slims it.
#
# One image for API, worker, relay and migrations. requirements.lock holds the packages of development and of the local stack
# as well, so the image does, too; docker-compose.yml takes its SQS emulator from them.

FROM python:3.12-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/turnstile
WORKDIR /src
COPY requirements.lock ./
RUN /opt/turnstile/bin/pip install --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY turns/ turns/
COPY worker/ worker/
COPY producer/ producer/
COPY ops/ ops/
COPY migrations/ migrations/
COPY examples/ examples/
RUN /opt/turnstile/bin/pip install --no-deps --no-build-isolation --no-index .

FROM python:3.12-slim
RUN useradd --system --create-home --uid 10001 turnstile
COPY --from=build /opt/turnstile /opt/turnstile
ENV PATH=/opt/turnstile/bin:$PATH PYTHONUNBUFFERED=1 TURNSTILE_LOG_FORMAT=json
# Where a handler of one's own is found: mount it, or build an image on top of this one.
WORKDIR /app
USER turnstile
# Exec form: SIGTERM reaches the process, which then drains for TURNSTILE_GRACE_SECONDS.
ENTRYPOINT ["turnstile"]
CMD ["--help"]
