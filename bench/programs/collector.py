"""Takes what an OTLP exporter sends and keeps nothing: what a collector beside the worker looks like to it. `BENCH_PORT`."""

import os

from aiohttp import web


async def _take(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(content_type="application/x-protobuf")


async def _health(request: web.Request) -> web.Response:
    return web.Response()


if __name__ == "__main__":
    app = web.Application(client_max_size=64 << 20)
    app.router.add_get("/healthz", _health)
    app.router.add_post("/v1/traces", _take)
    web.run_app(app, host="127.0.0.1", port=int(os.environ["BENCH_PORT"]), print=None)
