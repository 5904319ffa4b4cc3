// Runs an agent with npm's @ag-ui/client, which checks every event that comes, and prints what it has understood.
// Arguments: the folder with the package, the server, the script of the run.
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

const [folder, server, script] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${folder}/node/`)("@ag-ui/client");

const respond = async (actionId) => {
  const answer = await fetch(`${server}/v1/commands/respond_action`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ actionId, decision: "allow" }),
  });
  if (!answer.ok) throw new Error(`respond_action: ${await answer.text()}`);
};

const agent = new HttpAgent({
  url: `${server}/api/v1/agent/runs`,
  threadId: randomUUID(),
  initialState: { mood: "good" },
  initialMessages: [{ id: randomUUID(), role: "user", content: script }],
});
const types = [];
let outcome = null;
let error = null;
const parameters = {
  tools: [{ name: "get_weather", description: "Weather", parameters: { type: "object" } }],
  context: [{ description: "place", value: "Berlin" }],
  forwardedProps: { agent: "scripted" },
};
const subscriber = {
  onEvent: ({ event }) => {
    types.push(event.type);
  },
  onCustomEvent: async ({ event }) => {
    if (event.name === "action.required") await respond(event.value.actionId);
  },
  onRunFinishedEvent: ({ event }) => {
    outcome = event.outcome;
  },
  onRunErrorEvent: ({ event }) => {
    error = event.message;
  },
};
try {
  await agent.runAgent(parameters, subscriber);
} catch (failure) {
  error ??= String(failure);
}
console.log(JSON.stringify({ types, outcome, error, state: agent.state, messages: agent.messages }));
