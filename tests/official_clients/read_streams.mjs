// Reads event streams with the official clients. Standard input has one JSON object on each line, standard output one answer:
//   {"as": "ai-sdk" | "ag-ui", "connections": ["the bytes of a connection as text", ...], "keeps": true | false}
//   {"text": "...", "ends": [...], "error": null | "..."}
// keeps: whether the client keeps what it has over a break, as opposed to a page that is loaded again.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";
import { DefaultChatTransport, readUIMessageStream } from "ai";

const HEADERS = { "content-type": "text/event-stream" };

async function readAiSdk(connections, keeps) {
  let message;
  let error = null;
  for (const body of connections) {
    const transport = new DefaultChatTransport({ fetch: async () => new Response(body, { headers: HEADERS }) });
    const stream = await transport.reconnectToStream({ chatId: "s" });
    error = null;
    const reading = readUIMessageStream({
      message: keeps ? message : undefined,
      stream,
      onError: (failed) => {
        error = String(failed.message ?? failed);
      },
    });
    for await (const seen of reading) message = seen;
  }
  const parts = message?.parts ?? [];
  const text = parts.filter((part) => part.type === "text").map((part) => part.text);
  return { text: text.join(""), id: message?.id, kinds: parts.map((part) => part.type), error };
}

async function readAgUi(connections, keeps) {
  let messages = [];
  let error = null;
  let run = null;
  for (const body of connections) {
    const agent = new HttpAgent({
      url: "http://127.0.0.1/",
      threadId: "s",
      initialMessages: keeps ? messages : [],
      fetch: async () => new Response(body, { headers: HEADERS }),
    });
    error = null;
    agent.subscribe({
      onRunStartedEvent: ({ event }) => {
        run = event.runId;
      },
      onRunErrorEvent: ({ event }) => {
        error = event.message;
      },
      onRunFailed: ({ error: failed }) => {
        error = `the client fails: ${failed.message}`;
      },
    });
    try {
      await agent.runAgent();
    } catch (failed) {
      error = `the client fails: ${failed.message}`;
    }
    messages = agent.messages;
  }
  const said = messages.filter((one) => one.role === "assistant" && run !== null && one.id.split(":")[0] === run);
  return { text: said.map((one) => one.content ?? "").join(""), id: run, kinds: messages.map((one) => one.role), error };
}

console.warn = () => {};
for await (const line of createInterface({ input: process.stdin })) {
  const { as, connections, keeps } = JSON.parse(line);
  const read = as === "ai-sdk" ? readAiSdk : readAgUi;
  console.log(JSON.stringify(await read(connections, keeps)));
}
