"""The official openai package against a server: what a user of it would do.

    python3 tests/clients/openai_sdk.py --base-url http://127.0.0.1:8000

The server is a stand-in replica, or an Envoy with the filter in front of some. It need not be the
same replica that answers each time, so nothing is expected of its cache.
"""

import argparse
import concurrent.futures

import openai

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a place",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}},
                "required": ["place"],
            },
        },
    }
]


def completions(client):
    answer = client.completions.create(model="m", prompt="Once upon a time", max_tokens=4, n=2)
    assert len(answer.choices) == 2, answer
    assert len(answer.choices[0].text) == 16, answer
    assert answer.usage.completion_tokens == 8, answer

    batch = client.completions.create(model="m", prompt=["a", "b", "c"], max_tokens=2)
    assert [choice.index for choice in batch.choices] == [0, 1, 2], batch

    ids = client.completions.create(model="m", prompt=[1, 2, 3, 4, 5], max_tokens=2)
    assert ids.usage.prompt_tokens == 5, ids


def chat(client):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Grüße, 世界 😀"}]},
    ]
    answer = client.chat.completions.create(model="m", messages=messages, max_tokens=4, n=2)
    assert len(answer.choices) == 2, answer
    assert answer.choices[0].message.role == "assistant", answer
    assert len(answer.choices[0].message.content) == 16, answer
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0, answer

    stream = client.chat.completions.create(
        model="m",
        messages=messages,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
        usage = chunk.usage or usage
    assert len(text) == 24, text
    assert usage.completion_tokens == 6, usage


def tools(client):
    """The second turn of an agent: the call it made, and what came of it."""
    messages = [{"role": "user", "content": "How is the weather in Oslo?"}]
    first = client.chat.completions.create(
        model="m", messages=messages, tools=TOOLS, max_tokens=4
    )
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"place": "Oslo"}'},
    }
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Snow, -3 °C"},
    ]
    second = client.chat.completions.create(
        model="m", messages=messages, tools=TOOLS, tool_choice="auto", max_tokens=4
    )
    assert second.usage.prompt_tokens > first.usage.prompt_tokens, (first, second)


def responses(client):
    answer = client.responses.create(
        model="m", instructions="Be brief.", input="What is a prefix?", max_output_tokens=5
    )
    assert answer.status == "completed", answer
    assert len(answer.output_text) == 20, answer
    assert answer.usage.output_tokens == 5, answer
    assert answer.usage.input_tokens_details.cached_tokens >= 0, answer

    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "The weather in Oslo?"}]},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"place": "Oslo"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "Snow"},
    ]
    tools = [{"type": "function", **TOOLS[0]["function"], "strict": False}]
    with client.responses.stream(
        model="m", input=items, tools=tools, max_output_tokens=6
    ) as stream:
        kinds = []
        text = ""
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = stream.get_final_response()
    assert kinds[0] == "response.created", kinds
    assert kinds[-1] == "response.completed", kinds
    assert kinds.count("response.output_text.delta") == 6, kinds
    assert final.output_text == text, (final, text)
    assert final.usage.output_tokens == 6, final


def burst(client):
    """The samples of two prompts at once, each as a request of its own."""

    def ask(number):
        messages = [{"role": "user", "content": f"Prompt {number % 2}. " * 200}]
        return client.chat.completions.create(
            model="m", messages=messages, seed=number, max_tokens=3
        )

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    for half in (answers[0::2], answers[1::2]):
        texts = {answer.choices[0].message.content for answer in half}
        assert len(texts) == 1, texts


def errors(client):
    try:
        client.chat.completions.create(model="m", messages=[])
    except openai.BadRequestError as error:
        assert error.status_code == 400, error
        assert "messages" in str(error), error
    else:
        raise AssertionError("no messages were taken")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True, help="without /v1")
    base = parser.parse_args().base_url.rstrip("/")
    client = openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=60)
    for scene in (completions, chat, tools, responses, burst, errors):
        scene(client)
        print(f"openai {openai.__version__}: {scene.__name__}")


if __name__ == "__main__":
    main()
