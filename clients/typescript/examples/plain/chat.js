// A chat without a framework and without a bundler. All tabs of a session show the same.
import { Turnstile } from "./turnstile.browser.js";

async function getToken() {
  const answer = await fetch("/token", { method: "POST" });
  if (!answer.ok) {
    throw new Error(`no token: status ${answer.status}`);
  }
  return await answer.json();
}

const { session_id, api_url } = await getToken();
const turnstile = new Turnstile({ url: api_url, getToken });
const session = turnstile.session(session_id);

/** The turns that have not ended, by their ids. */
const open = new Set();

/** Shows what one side of a turn has said, in place of what it has said so far. */
function show(turnId, role, said) {
  const id = `${turnId}:${role}`;
  const article = document.getElementById(id) ?? document.getElementById("messages").appendChild(document.createElement("article"));
  article.id = id;
  article.dataset.role = role;
  article.textContent = typeof said === "string" ? said : JSON.stringify(said);
}

function showStatus() {
  document.body.dataset.status = open.size > 0 ? "streaming" : "ready";
}

/** What was said before this page was opened. */
async function showPast() {
  const past = await session.read({ include: ["open", "failed", "canceled"] });
  const turns = [...(past?.failed ?? []), ...(past?.canceled ?? []), ...(past?.open ?? [])];
  const said = [
    ...(past?.messages ?? []),
    ...turns.map((turn) => ({ turn_id: turn.id, seq: turn.seq ?? Infinity, role: "user", content: turn.input })),
  ];
  for (const { turn_id, role, content } of said.sort((a, b) => a.seq - b.seq)) {
    show(turn_id, role, content);
  }
  for (const turn of past?.open ?? []) {
    open.add(turn.id);
  }
  return past;
}

const past = await showPast();
showStatus();

document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = document.getElementById("message");
  const text = field.value.trim();
  if (text) {
    field.value = "";
    const turn = await session.submit(text);
    show(turn.id, "user", text);
  }
});

document.getElementById("stop").addEventListener("click", async () => {
  await Promise.all([...open].map((id) => turnstile.turn(id).cancel()));
});

// What happens from now on, in this tab or in another one.
for await (const { event, turnId, text } of session.follow({ since: past })) {
  switch (event) {
    case "metadata":
      open.add(turnId);
      if (!document.getElementById(`${turnId}:user`)) {
        show(turnId, "user", (await turnstile.turn(turnId).read()).input);
      }
      break;
    case "end":
    case "error":
      open.delete(turnId);
      break;
  }
  if (text) {
    show(turnId, "assistant", text);
  }
  showStatus();
}
