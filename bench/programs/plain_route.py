"""The plain route that `turnstile api` is compared with: FastAPI, an ORM session and boto3, one call of each a request."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import boto3
from botocore.config import Config
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import JSON
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.programs.terms import QUEUE_URL


class Base(DeclarativeBase):
    pass


class SubmittedJob(Base):
    __tablename__ = "submitted_jobs"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    session_id: Mapped[str]
    status: Mapped[str]
    input: Mapped[Any] = mapped_column(JSON)


class Body(BaseModel):
    input: Any


engine = create_async_engine(
    os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://"), pool_size=20, max_overflow=0
)
sessions = async_sessionmaker(engine, expire_on_commit=False)
sqs: Any = boto3.client("sqs", config=Config(max_pool_connections=32))


@asynccontextmanager
async def lifespan(_: FastAPI) -> Any:
    # The default has six threads on two cores, and the sends would wait for one another.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield


app = FastAPI(lifespan=lifespan)


@app.get("/healthz")
async def healthz() -> None:
    pass


@app.post("/v1/sessions/{session_id}/turns", status_code=202)
async def submit(session_id: str, body: Body) -> dict[str, str]:
    job = SubmittedJob(id=uuid4(), session_id=session_id, status="PENDING", input=body.input)
    async with sessions.begin() as session:
        session.add(job)
    message = json.dumps({"session_id": session_id, "id": str(job.id)})
    await asyncio.to_thread(sqs.send_message, QueueUrl=QUEUE_URL, MessageBody=message)
    return {"id": str(job.id), "status": job.status}
