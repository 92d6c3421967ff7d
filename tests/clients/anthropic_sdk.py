"""The official anthropic package against a server: what a user of it would do.

    python3 tests/clients/anthropic_sdk.py --base-url http://127.0.0.1:8000

The server is a stand-in replica, or an Envoy with the filter in front of some.
"""

import argparse

import anthropic

TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a place",
        "input_schema": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
        },
        "cache_control": {"type": "ephemeral"},
    }
]


def message(client):
    answer = client.messages.create(
        model="m",
        max_tokens=5,
        system="Be brief.",
        messages=[{"role": "user", "content": "Grüße, 世界 😀"}],
    )
    assert answer.type == "message", answer
    assert answer.content[0].type == "text", answer
    assert len(answer.content[0].text) == 20, answer
    assert answer.stop_reason == "max_tokens", answer
    usage = answer.usage
    assert usage.output_tokens == 5, answer
    assert usage.input_tokens + usage.cache_read_input_tokens > 0, answer


def stream(client):
    blocks = [
        {"type": "text", "text": "Tell me of prefixes.", "cache_control": {"type": "ephemeral"}}
    ]
    with client.messages.stream(
        model="m", max_tokens=6, messages=[{"role": "user", "content": blocks}]
    ) as events:
        text = "".join(events.text_stream)
        final = events.get_final_message()
    assert len(text) == 24, text
    assert final.content[0].text == text, final
    assert final.usage.output_tokens == 6, final
    assert final.stop_reason == "max_tokens", final

    kinds = [
        event.type
        for event in client.messages.create(
            model="m",
            max_tokens=2,
            messages=[{"role": "user", "content": "Count."}],
            stream=True,
        )
    ]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ], kinds


def tools(client):
    """The second turn of an agent: the call it made, and what came of it."""
    messages = [{"role": "user", "content": "How is the weather in Oslo?"}]

    def ask():
        return client.messages.create(model="m", max_tokens=3, messages=messages, tools=TOOLS)

    def prompt_tokens(answer):
        return answer.usage.input_tokens + answer.usage.cache_read_input_tokens

    first = ask()
    messages += [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I shall look."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "get_weather",
                    "input": {"place": "Oslo"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Snow, -3 °C"}
            ],
        },
    ]
    second = ask()
    assert prompt_tokens(second) > prompt_tokens(first), (first, second)


def errors(client):
    try:
        client.messages.create(model="m", max_tokens=3, messages=[])
    except anthropic.BadRequestError as error:
        assert error.status_code == 400, error
        assert "messages" in str(error), error
    else:
        raise AssertionError("no messages were taken")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True, help="without /v1")
    base = parser.parse_args().base_url.rstrip("/")
    client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0, timeout=60)
    for scene in (message, stream, tools, errors):
        scene(client)
        print(f"anthropic {anthropic.__version__}: {scene.__name__}")


if __name__ == "__main__":
    main()
