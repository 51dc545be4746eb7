# One image for all commands of production, and with `--target emulator` an SQS API for one's own machine.
#
#   docker build -t turnstile .
#   docker run --init --read-only --tmpfs /tmp --env-file FILE turnstile worker        (or api, relay, migrate)
#
# A handler of one's own: mount its folder at /app, or build on top: FROM turnstile, COPY my_handler.py /app/.
# Packages that it needs are put in as step 1 of infra/README.md shows: the image has no pip, and no shell for a RUN.
#
# Pinned by tag, so that a rebuild gets the base's security fixes. For builds that can be repeated pin by digest:
# `docker buildx imagetools inspect python:3.11-slim` tells it, then
# --build-arg PYTHON=python:3.11-slim@sha256:<digest>.
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS base
# A number, because Kubernetes can't tell of a name whether it is root.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /app --shell /usr/sbin/nologin turnstile \
 && mkdir /app
ENV PATH=/opt/turnstile/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /app

FROM base AS packages
# uv stays behind. It installs what a list of requirements needs, each package with its version and hash from the lock.
# Bytecode is compiled here: the root file system is read-only when it runs.
ENV UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 VIRTUAL_ENV=/opt/turnstile
WORKDIR /src
COPY pyproject.toml requirements.lock ./
RUN python3 -m venv /opt/uv \
 && python3 -m venv --without-pip $VIRTUAL_ENV \
 && sed -n '/^uv==/,/[^\]$/p' requirements.lock >uv.lock \
 && /opt/uv/bin/python -m pip --no-cache-dir install --require-hashes -r uv.lock \
 && /opt/uv/bin/uv pip install --require-hashes --constraints requirements.lock -r pyproject.toml --extra telemetry --extra top

FROM packages AS product
COPY README.md LICENSE ./
COPY docs/ docs/
COPY turnstile/ turnstile/
# Apart from the packages, so that a change of the product is a small layer of its own.
RUN /opt/uv/bin/uv pip install --no-deps --build-constraints requirements.lock --prefix /opt/product .

FROM packages AS emulator-packages
RUN /opt/uv/bin/uv pip install --require-hashes --constraints requirements.lock -r pyproject.toml --extra emulator

# For correctness, not for timings, and never for production: it asks nobody who he is, and forgets all when it stops.
FROM base AS emulator
COPY --from=emulator-packages /opt/turnstile /opt/turnstile
# Queues are looked up by the URL that it tells, so host and port must be those that its clients use.
ENV GATEWAY_PORT=4566 BIND_HOST=0.0.0.0 MINISTACK_HOST=sqs MINISTACK_REGION=us-east-1 SERVICES=sqs SFTP_ENABLED=0 \
    IOT_MTLS_ENABLED=0 PERSIST_STATE=0 LOG_LEVEL=WARNING \
    # It removes containers that look like its own, and shall find no engine.
    DOCKER_HOST=unix:///nonexistent
WORKDIR /tmp
USER 10001:10001
EXPOSE 4566
HEALTHCHECK --interval=2s --timeout=5s --retries=30 CMD python -c \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:$GATEWAY_PORT/_ministack/health', timeout=4)"
CMD ["python", "-m", "ministack"]

FROM base AS bare
# What a process of Turnstile never starts helps only who has broken into one: every program but Python goes, with shells, apt and pip.
# Python deletes, because `rm` would be gone before it is done. The list of Debian's packages stays, for scanners.
RUN ["python3", "-c", "\
import os, shutil, sys\n\
from pathlib import Path\n\
kept = os.path.realpath(sys.executable)\n\
for folder in {os.path.realpath(name) for name in ('/bin', '/sbin', '/usr/bin', '/usr/sbin', '/usr/local/bin', '/usr/local/sbin')}:\n\
    for program in list(Path(folder).iterdir()):\n\
        if os.path.realpath(program) != kept:\n\
            program.unlink()\n\
homes = [path for path in sys.path if path.endswith('-packages')] + [os.path.dirname(os.__file__)]\n\
for waste in ['/usr/lib/apt', '/var/lib/apt', '/var/cache/apt', '/usr/libexec', *(home + name for home in homes for name in ('/pip', '/ensurepip'))]:\n\
    shutil.rmtree(waste, ignore_errors=True)\n\
"]

# Last, because it is what a build without --target makes. From nothing: in a layer above, what was deleted could still be read.
FROM scratch AS turnstile
COPY --from=bare / /
COPY --from=product /opt/turnstile /opt/turnstile
COPY --from=product /opt/product /opt/turnstile
ENV PATH=/opt/turnstile/bin:/usr/local/bin:/usr/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1 \
    TURNSTILE_LOG_FORMAT=json TURNSTILE_HEALTH_PORT=8081
WORKDIR /app
# Fargate mounts an empty volume there that only root may write to, unless the image names the path as a volume: then it has the
# mode that it has here, which is everybody's.
VOLUME ["/tmp"]
USER 10001:10001
EXPOSE 8080 8081
# ECS and Kubernetes ask by themselves, and don't look at this one. Nothing but Python could put the ports in.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-I", "-c", "\
import os, sys\n\
from turnstile.ops.container_health import main\n\
sys.exit(main(['api=' + os.environ.get('TURNSTILE_API_PORT', '8080'), 'worker=' + os.environ['TURNSTILE_HEALTH_PORT']]))"]
# Exec form: SIGTERM reaches the process, which then drains for TURNSTILE_GRACE_SECONDS. `docker stop` kills after ten
# seconds unless it is told to wait longer than that.
ENTRYPOINT ["turnstile"]
CMD ["--help"]
