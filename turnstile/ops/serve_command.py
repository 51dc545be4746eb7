"""`turnstile api`, `worker` and `relay`: the long-running processes. Each imports only its own code."""

from typing import Annotated

import typer


def api(
    host: Annotated[str | None, typer.Option(envvar="TURNSTILE_API_HOST", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(envvar="TURNSTILE_API_PORT", min=0, max=65_535, show_default=False)
    ] = None,
) -> None:
    """Serve the HTTP API."""
    from turnstile.config.config_file import load
    from turnstile.producer.app import serve

    serve(load(api_host=host, api_port=port))


def worker(
    queue: Annotated[str | None, typer.Option("--queue", "-q", envvar="TURNSTILE_QUEUE", show_default=False)] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", envvar="TURNSTILE_CONCURRENCY", min=1, show_default=False)
    ] = None,
    handler: Annotated[
        str | None,
        typer.Option(envvar="TURNSTILE_HANDLER", help="module:function, found from here.", show_default=False),
    ] = None,
    relay: Annotated[
        bool | None, typer.Option("--relay/--no-relay", envvar="TURNSTILE_RELAY", show_default=False)
    ] = None,
) -> None:
    """Answer the turns of a queue."""
    from turnstile.config.config_file import load
    from turnstile.worker.worker_process import serve

    raise typer.Exit(serve(load(queue=queue, concurrency=concurrency, handler=handler, relay=relay)))


def relay() -> None:
    """Send what is due, without answering turns. Any number of relays may run."""
    import asyncio

    from turnstile.config.config_file import load
    from turnstile.process import logs
    from turnstile.process.metrics_export import exporting_metrics
    from turnstile.relay.relay_process import run_relay
    from turnstile.telemetry import tracing

    settings = load()
    logs.configure(settings)
    traces = tracing.start("turnstile-relay", wanted=settings.exports_traces)
    try:
        with exporting_metrics(settings, "relay"):
            asyncio.run(run_relay(settings, traces))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        tracing.flush(traces)
