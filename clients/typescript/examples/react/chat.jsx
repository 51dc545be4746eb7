// A chat with React and the AI SDK's `useChat`. `npm run examples` bundles it.
import { useChat } from "@ai-sdk/react";
import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Turnstile } from "turnstile-client";
import { TurnstileChatTransport } from "turnstile-client/ai-sdk";

async function getToken() {
  const answer = await fetch("/token", { method: "POST" });
  if (!answer.ok) {
    throw new Error(`no token: status ${answer.status}`);
  }
  return await answer.json();
}

function Chat({ sessionId, transport, past }) {
  const { messages, status, sendMessage, stop, error } = useChat({ id: sessionId, transport, messages: past, resume: true });
  const [text, setText] = useState("");
  const isBusy = status === "submitted" || status === "streaming";

  useEffect(() => {
    document.body.dataset.status = isBusy ? "streaming" : "ready";
  }, [isBusy]);

  function send(event) {
    event.preventDefault();
    setText("");
    sendMessage({ text });
  }

  return (
    <>
      <main>
        {messages.map(({ id, role, parts }) => (
          <article key={id} data-role={role}>
            {parts.map((part) => (part.type === "text" ? part.text : "")).join("")}
          </article>
        ))}
        {error && <p role="alert">{error.message}</p>}
      </main>
      <form onSubmit={send}>
        <input id="message" value={text} onChange={(event) => setText(event.target.value)} placeholder="Say something" />
        <button id="send" disabled={isBusy || !text.trim()}>
          Send
        </button>
        <button id="stop" type="button" onClick={stop}>
          Stop
        </button>
      </form>
    </>
  );
}

const { session_id, api_url } = await getToken();
const transport = new TurnstileChatTransport({ client: new Turnstile({ url: api_url, getToken }) });
const past = await transport.load(session_id);
createRoot(document.body).render(
  <StrictMode>
    <Chat sessionId={session_id} transport={transport} past={past} />
  </StrictMode>,
);
