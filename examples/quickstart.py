"""An agent of 15 lines. Start the server with `make up`, then run this file."""

from promptctx import Client

s = Client().session("trip-1", subject="sofia", mode="react", model="gpt-4o")
s.instructions(role="You are an airline's agent.", rules=["Answer in one paragraph."])
s.constraint("ask-first", "未经用户明确同意，不得修改预订", level="block")  # in every prompt, whatever the budget
s.user("Get me on the fastest flight from Denver to Houston on May 27, in economy.")
s.assistant("", tool_calls=[{"id": "c1", "name": "search", "arguments": {"from": "DEN", "to": "IAH"}}])
s.tool_result("c1", {"flight": "HAT229", "seats": {"economy": 0, "business": 5}})

prompt = s.compile(budget=2000).result(timeout=10)  # compile() returns at once, result() waits for a worker
# reply = openai.OpenAI().chat.completions.create(**prompt.openai())
reply = {"choices": [{"message": {"role": "assistant", "content": "HAT229 has no economy seat left."}}]}
s.record(reply)  # linked to the prompt that it answers

print(prompt.text)
print([unit for unit in prompt.report["units"] if unit["disposition"] != "included"])  # what was left out, and why
print(f"version {prompt.version}, {prompt.tokens} tokens, identical when replayed: {prompt.replay().identical}")
