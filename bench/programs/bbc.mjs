// `bbc`: bbc's sqs-consumer with handleMessage, as many consumers of ten as there are slots. It keeps no status and takes no lock.
import { openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const environment = process.env;
const from = createRequire(join(environment.BENCH_NODE_FOLDER, "package.json"));
const load = (name) => import(pathToFileURL(from.resolve(name)).href);
const { Consumer } = await load("sqs-consumer");
const { SQSClient } = await load("@aws-sdk/client-sqs");

const record = openSync(environment.BENCH_RECORD, "a");
const entry = Buffer.alloc(16);
const sleepMs = Number(environment.BENCH_SLEEP_SECONDS || 0) * 1000;

function begin(number) {
  entry.writeBigInt64LE(BigInt(number), 0);
  entry.writeBigInt64LE(BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n, 8);
  writeSync(record, entry);
}

const sqs = new SQSClient({
  region: "us-east-1",
  endpoint: environment.AWS_ENDPOINT_URL_SQS,
  credentials: { accessKeyId: "local", secretAccessKey: "local" },
});

for (let free = Number(environment.BENCH_SLOTS); free > 0; free -= 10) {
  const consumer = Consumer.create({
    queueUrl: environment.BENCH_QUEUE_URL,
    sqs,
    batchSize: 10,
    waitTimeSeconds: 20,
    handleMessage: async (message) => {
      begin(JSON.parse(message.Body).number);
      if (sleepMs) await new Promise((resolve) => setTimeout(resolve, sleepMs));
      return message;
    },
  });
  for (const event of ["error", "processing_error"]) consumer.on(event, (error) => console.error(error.message));
  consumer.start();
}
