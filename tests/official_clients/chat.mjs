// Talks to an API as docs/wires.md says, with nothing but the official clients: node chat.mjs ai-sdk|ag-ui URL KEY SESSION
import { HttpAgent } from "@ag-ui/client";
import { DefaultChatTransport, readUIMessageStream } from "ai";

const [as, url, key, session] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const textOf = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

async function chatWithAiSdk() {
  const transport = new DefaultChatTransport({
    headers,
    prepareSendMessagesRequest: ({ id, messages }) => ({
      api: `${url}/v1/sessions/${id}/chat?as=ai-sdk`,
      headers: { ...headers, "Idempotency-Key": messages.at(-1).id },
      body: { input: textOf(messages.at(-1)) },
    }),
    prepareReconnectToStreamRequest: ({ id }) => ({ api: `${url}/v1/sessions/${id}/stream?as=ai-sdk`, headers }),
  });
  const messages = [{ id: `message-of-${session}`, role: "user", parts: [{ type: "text", text: "hi" }] }];
  const stream = await transport.sendMessages({ chatId: session, messages, trigger: "submit-message" });
  let message;
  for await (const seen of readUIMessageStream({ stream, terminateOnError: true })) message = seen;
  const resumed = await transport.reconnectToStream({ chatId: session });
  return { text: textOf(message), id: message.id, resumed: resumed !== null };
}

class TurnstileAgent extends HttpAgent {
  requestInit(input) {
    const last = input.messages.at(-1);
    return { ...super.requestInit(input), body: JSON.stringify({ input: last.content }) };
  }
}

async function chatWithAgUi() {
  const agent = new TurnstileAgent({ url: `${url}/v1/sessions/${session}/chat?as=ag-ui`, headers, threadId: session });
  agent.addMessage({ id: "mine", role: "user", content: "hi" });
  const { result, newMessages } = await agent.runAgent();
  const said = newMessages.filter((message) => message.role === "assistant");
  return { text: said.map((message) => message.content).join(""), id: said.at(-1).id, result };
}

console.log(JSON.stringify(await (as === "ai-sdk" ? chatWithAiSdk() : chatWithAgUi())));
