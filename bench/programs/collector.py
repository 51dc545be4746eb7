"""Takes what an OTLP exporter sends, as a collector next to the worker does, and keeps only its size. `BENCH_PORT`: where."""

import os

from aiohttp import web


class Collector:
    def __init__(self) -> None:
        self._bytes = 0

    async def take(self, request: web.Request) -> web.Response:
        self._bytes += len(await request.read())
        return web.Response(content_type="application/x-protobuf")

    async def taken(self, request: web.Request) -> web.Response:
        """How many bytes it was sent."""
        return web.json_response(self._bytes)

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()


if __name__ == "__main__":
    collector = Collector()
    app = web.Application(client_max_size=64 << 20)
    app.add_routes(
        [
            web.get("/healthz", collector.health),
            web.post("/v1/traces", collector.take),
            web.get("/taken", collector.taken),
        ]
    )
    web.run_app(app, host="127.0.0.1", port=int(os.environ["BENCH_PORT"]), print=None)
