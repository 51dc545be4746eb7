"""`celery`: Celery on SQS with its results in Postgres, which is the nearest it has to a status row.

`acks_late`, or a crash would lose jobs; no pause between polls, or its default of a second would be all one measured.
"""

import os
import time

from celery import Celery

from bench.programs.terms import QUEUE, QUEUE_URL, SLEEP_SECONDS, begin

ENDPOINT = os.environ["AWS_ENDPOINT_URL_SQS"].removeprefix("http://")

app = Celery("bench", broker=f"sqs://local:local@{ENDPOINT}")
app.conf.update(
    task_default_queue=QUEUE,
    task_acks_late=True,
    task_track_started=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,
        "wait_time_seconds": 20,
        "polling_interval": 0,
        "visibility_timeout": 300,
        "predefined_queues": {QUEUE: {"url": QUEUE_URL, "access_key_id": "local", "secret_access_key": "local"}},
    },
    result_backend=os.environ["DATABASE_URL"].replace("postgresql://", "db+postgresql+psycopg://"),
    database_create_tables_at_setup=True,
)


@app.task(name="job")  # type: ignore[untyped-decorator]
def job(number: int) -> None:
    begin(number)
    if SLEEP_SECONDS:
        time.sleep(SLEEP_SECONDS)
