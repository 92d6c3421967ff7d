use burst_prefix_cache::request::Api;
use burst_prefix_cache::request::Unreadable::{Missing, Type};

use crate::Pairs;

pub(crate) const PAIRS: Pairs = Pairs {
    api: Api::ChatCompletions,
    same: &[
        (
            r#"{"tools":[{"a":1}],"messages":[{}]}"#,
            r#"{"tools":[{"a":1}],"tool_choice":"required","messages":[{}],"parallel_tool_calls":true}"#,
        ),
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"tool_choice":"none","response_format":{"type":"json_object"}}"#,
        ),
        (
            r#"[{"role":"user","content":"a"}]"#,
            r#"{"messages":[{"content":"a","role":"user"}],
        "n":8,"seed":1,"temperature":0.5,"top_p":1,"max_tokens":5,"stream":true,"stop":"a",
        "user":"u","metadata":{"messages":[]},"priority":1,"tool_choice":"auto","prompt":"p"}"#,
        ),
        // Fields that say nothing.
        (
            r#"[{"role":"user","content":"a"}]"#,
            r#"{"messages":[{"role":"user","content":"a",
        "name":null,"tool_calls":null,"refusal":null,"reasoning_content":null,"unknown":1}],
        "tools":[],"documents":null,"chat_template_kwargs":{},"continue_final_message":false,
        "add_generation_prompt":true,"chat_template":null,"reasoning_effort":null}"#,
        ),
        (
            r#"[{"role":"user","content":"a"}]"#,
            r#"{"tools":null,"messages":[{"role":"user",
        "tool_calls":[],"content":[{"text":"a","type":"text","cache_control":{"x":1}}]}]}"#,
        ),
        (
            r#"[{"role":"user","content":"a"}]"#,
            r#"[{"role":"user","content":["a"]}]"#,
        ),
        (
            r#"[{"role":"user"}]"#,
            r#"[{"role":"user","content":null}]"#,
        ),
        (r#"[{"role":"user"}]"#, r#"[{"role":"user","content":[]}]"#),
        (
            r#"[{"role":"a","reasoning":"x"}]"#,
            r#"[{"role":"a","reasoning_content":"x"}]"#,
        ),
        // Duplicates inside a message, a part, a call, a tool.
        (
            r#"[{"role":"a","content":"b"}]"#,
            r#"[{"role":"x","content":[1],"role":"a","content":"b"}]"#,
        ),
        (
            r#"[{"content":[{"type":"text","text":"b"}]}]"#,
            r#"[{"content":[{"type":"image","text":"a","type":"text","text":"b"}]}]"#,
        ),
        (
            r#"[{"content":[{"type":"i","i":{"url":"a"}}]}]"#,
            r#"[{"content":[{"i":3,"type":"x","i":{"url":"b","url":"a"},"type":"i"}]}]"#,
        ),
        (
            r#"[{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}]"#,
            r#"[{"tool_calls":[{"id":"0","function":1,"type":"function","function":{"arguments":"",
        "arguments":"{}","name":"f"},"id":"1"}]}]"#,
        ),
        (
            r#"{"tools":[{"a":1,"b":2}],"messages":[{}]}"#,
            r#"{"messages":[{}],"tools":[ {"\u0061":0, "b":2, "a":1} ]}"#,
        ),
        // A picture's fields have no order.
        (
            r#"[{"content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}}]}]"#,
            r#"[{"content":[{"image_url":{"detail":"low","url":"\u0075"},"type":"image_url",
        "cache_control":{},"uuid":null}]}]"#,
        ),
        (
            r#"{"chat_template_kwargs":{"a":1,"b":{"c":2,"d":3}},"messages":[{}]}"#,
            r#"{"chat_template_kwargs":{"b":{"d":3,"c":2},"a":1},"messages":[{}]}"#,
        ),
    ],
    differ: &[
        // Engines print no tools, or only the one, where the choice says so.
        (
            r#"{"tools":[{"a":1}],"messages":[{}]}"#,
            r#"{"tools":[{"a":1}],"tool_choice":"none","messages":[{}]}"#,
        ),
        (
            r#"{"tools":[{"a":1}],"messages":[{}]}"#,
            r#"{"tools":[{"a":1}],"tool_choice":{"type":"function","function":{"name":"a"}},"messages":[{}]}"#,
        ),
        (
            r#"[{"content":[{"type":"refusal","refusal":"a"}]}]"#,
            r#"[{"content":[{"type":"refusal","refusal":"b"}]}]"#,
        ),
        (
            r#"[{"content":[{"type":"refusal","refusal":"a"}]}]"#,
            r#"[{"content":[{"type":"text","text":"a"}]}]"#,
        ),
        // Borders between messages, and between what belongs to different fields.
        (
            r#"[{"role":"user","content":"ab"},{"role":"user","content":"c"}]"#,
            r#"[{"role":"user","content":"a"},{"role":"user","content":"bc"}]"#,
        ),
        (
            r#"[{"role":"usera","content":"b"}]"#,
            r#"[{"role":"user","content":"ab"}]"#,
        ),
        (
            r#"[{"role":"a"},{"role":"b"}]"#,
            r#"[{"role":"a","content":"b"}]"#,
        ),
        (
            r#"[{"role":"a","content":"b"}]"#,
            r#"[{"role":"a","name":"b"}]"#,
        ),
        (
            r#"[{"role":"a","content":"b"}]"#,
            r#"[{"role":"a","reasoning_content":"b"}]"#,
        ),
        (
            r#"[{"role":"a","content":"b"}]"#,
            r#"[{"role":"a","refusal":"b"}]"#,
        ),
        (
            r#"[{"role":"a","tool_call_id":"b"}]"#,
            r#"[{"role":"a","name":"b"}]"#,
        ),
        (r#"[{"role":"a","content":""}]"#, r#"[{"role":"a"}]"#),
        (r#"[{"content":"abc"}]"#, r#"[{"content":"abc\u0000"}]"#),
        (r#"[{"content":"a"}]"#, r#"[{"content":"a"},{}]"#),
        (r#"[{"content":["a","b"]}]"#, r#"[{"content":"ab"}]"#),
        (r#"[{"content":["a","b"]}]"#, r#"[{"content":"a\nb"}]"#),
        (r#"[{"content":["ab","c"]}]"#, r#"[{"content":["a","bc"]}]"#),
        (
            r#"[{"content":["a"]},{"content":"b"}]"#,
            r#"[{"content":["a","b"]}]"#,
        ),
        // Tools.
        (
            r#"{"tools":["x"],"messages":[{}]}"#,
            r#"[{"role":"user","content":"x"},{}]"#,
        ),
        (
            r#"{"tools":[{"a":1}],"messages":[{}]}"#,
            r#"{"tools":[{"a":2}],"messages":[{}]}"#,
        ),
        (
            r#"{"tools":[{"a":"1"}],"messages":[{}]}"#,
            r#"{"tools":[{"a":1}],"messages":[{}]}"#,
        ),
        (
            r#"{"tools":[{"a":1,"b":2}],"messages":[{}]}"#,
            r#"{"tools":[{"b":2,"a":1}],"messages":[{}]}"#,
        ),
        (
            r#"{"tools":[{"a":[]}],"messages":[{}]}"#,
            r#"{"tools":[{"a":{}}],"messages":[{}]}"#,
        ),
        (
            r#"{"tools":[["a"],"b"],"messages":[{}]}"#,
            r#"{"tools":[["a","b"]],"messages":[{}]}"#,
        ),
        (
            r#"{"tools":[{"a":1,"b":2,"a":3}],"messages":[{}]}"#,
            r#"{"tools":[{"b":2,"a":3}],"messages":[{}]}"#,
        ),
        (
            r#"{"tools":[{"a":1}],"messages":[{}]}"#,
            r#"{"messages":[{"tools":[{"a":1}]}]}"#,
        ),
        // Tool calls.
        (
            r#"[{"tool_calls":[{"function":{"name":"f","arguments":"x"}}]}]"#,
            r#"[{"tool_calls":[{"function":{"name":"f","arguments":"y"}}]}]"#,
        ),
        (
            r#"[{"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]}]"#,
            r#"[{"tool_calls":[{"function":{"name":"fg"}}]}]"#,
        ),
        (
            r#"[{"tool_calls":[{"id":"f"}]}]"#,
            r#"[{"tool_calls":[{"function":{"name":"f"}}]}]"#,
        ),
        (
            r#"[{"tool_calls":[{"id":"1"}]}]"#,
            r#"[{"tool_calls":[{"id":"2"}]}]"#,
        ),
        (
            r#"[{"tool_calls":[{"id":"a"}]}]"#,
            r#"[{"tool_call_id":"a"}]"#,
        ),
        // Media.
        (
            r#"[{"content":[{"type":"image_url","image_url":{"url":"a"}}]}]"#,
            r#"[{"content":[{"type":"image_url","image_url":{"url":"b"}}]}]"#,
        ),
        (
            r#"[{"content":[{"type":"image_url","image_url":{"url":"a"}}]}]"#,
            r#"[{"content":[{"type":"video_url","video_url":{"url":"a"}}]}]"#,
        ),
        (
            r#"[{"content":[{"type":"image_url","image_url":{"url":"a"}},"b"]}]"#,
            r#"[{"content":["b",{"type":"image_url","image_url":{"url":"a"}}]}]"#,
        ),
        (
            r#"[{"content":[{"type":"input_audio","input_audio":{"data":"a","format":"wav"}}]}]"#,
            r#"[{"content":[{"type":"input_audio","input_audio":{"data":"a","format":"mp3"}}]}]"#,
        ),
        // Settings of the template.
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"chat_template":"x"}"#,
        ),
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"chat_template_kwargs":{"a":1}}"#,
        ),
        (
            r#"{"messages":[{}],"chat_template_kwargs":{"a":1}}"#,
            r#"{"messages":[{}],"chat_template_kwargs":{"a":2}}"#,
        ),
        (
            r#"{"messages":[{}],"chat_template_kwargs":{"a":{"b":1}}}"#,
            r#"{"messages":[{}],"chat_template_kwargs":{"b":{"a":1}}}"#,
        ),
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"documents":[{"text":"d"}]}"#,
        ),
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"reasoning_effort":"low"}"#,
        ),
        (
            r#"{"messages":[{}],"reasoning_effort":"x"}"#,
            r#"{"messages":[{}],"chat_template":"x"}"#,
        ),
        (
            r#"{"messages":[{}],"model":"x"}"#,
            r#"{"messages":[{}],"reasoning_effort":"x"}"#,
        ),
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"continue_final_message":true}"#,
        ),
        (
            r#"{"messages":[{}]}"#,
            r#"{"messages":[{}],"add_generation_prompt":false}"#,
        ),
        (
            r#"{"messages":[{}],"continue_final_message":true}"#,
            r#"{"messages":[{}],"add_generation_prompt":false}"#,
        ),
    ],
    share: &[
        // A message takes 10 bytes here, and each starts where the one before it ended.
        (
            2,
            r#"[{"role":"r","content":"s"},{"role":"r","content":"s"}]"#,
            r#"[{"role":"r","content":"s"},{"role":"r","content":"s"},{"role":"u"}]"#,
        ),
        (
            5,
            r#"[{"content":"01234567890123456789012345678901234567890"}]"#,
            r#"[{"content":"0123456789012345678901234567890123456789x"}]"#,
        ),
        // Tools stand first.
        (
            3,
            r#"{"messages":[{"content":"a"}],"tools":["0123456789abcdef"]}"#,
            r#"{"tools":["0123456789abcdef"],"messages":[{"content":"b"}]}"#,
        ),
    ],
    no_prefix: &[
        ("empty", r#"{"messages":[]}"#),
        ("empty", r#"{"messages":[],"tools":[{"a":1}]}"#),
    ],
    unreadable: &[
        (Missing, "{}"),
        (Missing, r#"{"messages":null}"#),
        (Type, r#"{"messages":"a"}"#),
        (Type, r#"{"messages":["a"]}"#),
        (Type, r#"{"messages":[{"role":1}]}"#),
        (Type, r#"{"messages":[{"content":1}]}"#),
        (Type, r#"{"messages":[{"content":{}}]}"#),
        (Type, r#"{"messages":[{"content":[1]}]}"#),
        (Type, r#"{"messages":[{"content":[{"type":1}]}]}"#),
        (Type, r#"{"messages":[{"content":[{"type":"text"}]}]}"#),
        (
            Type,
            r#"{"messages":[{"content":[{"type":"text","text":{}}]}]}"#,
        ),
        (Type, r#"{"messages":[{"tool_calls":{}}]}"#),
        (Type, r#"{"messages":[{"tool_calls":["a"]}]}"#),
        (Type, r#"{"messages":[{"tool_calls":[{"function":"a"}]}]}"#),
    ],
};
