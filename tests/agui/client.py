"""Asks for a run as PyPI's ag-ui-protocol writes it, and reads every event with its models.

Arguments: the folder with the package, the server, the script of the run. Prints what came."""

import json
import sys
import urllib.request
import uuid

folder, server, script = sys.argv[1:]
sys.path.insert(0, folder + "/python")

from ag_ui.core import Context, Event, RunAgentInput, Tool, UserMessage  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402

asked = RunAgentInput(
    thread_id=str(uuid.uuid4()),
    run_id=str(uuid.uuid4()),
    state={"mood": "good"},
    messages=[UserMessage(id="m1", content=script)],
    tools=[Tool(name="get_weather", description="Weather", parameters={"type": "object"})],
    context=[Context(description="place", value="Berlin")],
    forwarded_props={"agent": "scripted"},
)
request = urllib.request.Request(
    server + "/api/v1/agent/runs",
    data=asked.model_dump_json(by_alias=True).encode(),
    headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
)
event_of, types, changed = TypeAdapter(Event), [], []
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(request, timeout=60) as answer:
    for line in answer:
        if not line.startswith(b"data: "):
            continue
        sent = json.loads(line[6:])
        read = event_of.validate_python(sent)
        types.append(sent["type"])
        declared = {field.alias or name for name, field in type(read).model_fields.items()}
        changed += [f"{sent['type']}.{name}" for name in sent if name not in declared]
        if json.loads(read.model_dump_json(by_alias=True, exclude_none=True)) != sent:
            changed.append(sent["type"])
print(json.dumps({"types": types, "changed": changed}))
