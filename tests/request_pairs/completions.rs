use burst_prefix_cache::request::Api;
use burst_prefix_cache::request::Unreadable::{Json, Missing, Type};

use crate::Pairs;

pub(crate) const PAIRS: Pairs = Pairs {
    api: Api::Completions,
    same: &[
        // White space, key order, escapes.
        (
            r#"{"model":"m","prompt":"ab"}"#,
            "\n{ \"prompt\" :\t\"ab\" , \"model\":\"m\" }\r\n",
        ),
        (
            r#"{"prompt":"é/\"\n😀"}"#,
            r#"{"prompt":"\u00e9\/\u0022\u000A\uD83D\ude00"}"#,
        ),
        (r#"{"prompt":"ab"}"#, "\u{feff}{\"prompt\":\"ab\"}"),
        (
            r#"{"prompt":"ab","model":"m"}"#,
            r#"{"p\u0072ompt":"ab","mode\u006c":"\u006d"}"#,
        ),
        // Duplicates: the last one counts.
        (r#"{"prompt":"ab"}"#, r#"{"prompt":[1,2],"prompt":"ab"}"#),
        (
            r#"{"prompt":"ab"}"#,
            r#"{"prompt_embeds":"x","prompt":"ab","prompt_embeds":null}"#,
        ),
        (
            r#"{"model":"b","prompt":"ab"}"#,
            r#"{"model":"a","prompt":"ab","model":"b"}"#,
        ),
        // Kinds of prompts that are the same prompts.
        (r#"{"prompt":"ab"}"#, r#"{"prompt":["ab"]}"#),
        (r#"{"prompt":[1,2,3]}"#, r#"{"prompt":[[1,2,3]]}"#),
        (r#"{"prompt":["a","","b"]}"#, r#"{"prompt":["a","b"]}"#),
        (r#"{"prompt":[[1],[],[2]]}"#, r#"{"prompt":[[1],[2]]}"#),
        (
            r#"{"prompt":"ab"}"#,
            r#"{"prompt":"ab","model":null,"cache_salt":null}"#,
        ),
        (
            r#"{"prompt":"ab"}"#,
            r#"{"prompt":"ab","model":"","cache_salt":""}"#,
        ),
        // What does not change the prompt.
        (
            r#"{"prompt":"ab"}"#,
            r#"{"prompt":"ab","n":8,"seed":1,"temperature":NaN,"top_p":1,
        "max_tokens":5,"stream":true,"stop":["a"],"user":"u","metadata":{"prompt":"x"},
        "priority":1,"suffix":"s","echo":true,"messages":[{"content":"c"}]}"#,
        ),
        // The reference joins model and salt without a border, and pads text with zeros.
        (
            r#"{"prompt":"a","model":"ab","cache_salt":"c"}"#,
            r#"{"prompt":"a","model":"a","cache_salt":"bc"}"#,
        ),
        (r#"{"prompt":"abc"}"#, r#"{"prompt":"abc\u0000"}"#),
    ],
    differ: &[
        (r#"{"prompt":"ab"}"#, r#"{"prompt":["a","b"]}"#),
        (r#"{"prompt":"ab"}"#, r#"{"prompt":"ab "}"#),
        (r#"{"prompt":"é"}"#, r#"{"prompt":"e\u0301"}"#),
        (
            r#"{"prompt":"\ud83d\ude00"}"#,
            r#"{"prompt":"\ude00\ud83d"}"#,
        ),
        (r#"{"prompt":"\\u0061"}"#, r#"{"prompt":"\u0061"}"#),
        (r#"{"prompt":[1,2]}"#, r#"{"prompt":[2,1]}"#),
        (r#"{"prompt":[1,2]}"#, r#"{"prompt":[[1],[2]]}"#),
        (
            r#"{"prompt":"a","model":"m"}"#,
            r#"{"prompt":"a","model":"n"}"#,
        ),
        (
            r#"{"prompt":"a","model":"m"}"#,
            r#"{"prompt":"a","model":"m","cache_salt":"s"}"#,
        ),
        (
            r#"{"prompt":"a","cache_salt":"s"}"#,
            r#"{"prompt":"a","extra_key":"s"}"#,
        ),
        (
            r#"{"prompt":"a","extra_key":"s"}"#,
            r#"{"prompt":"a","lora_path":"s"}"#,
        ),
        (
            r#"{"prompt":"a"}"#,
            r#"{"prompt":"a","add_special_tokens":false}"#,
        ),
    ],
    share: &[
        (
            2,
            r#"{"prompt":"0123456789abcdefX"}"#,
            r#"{"prompt":"0123456789abcdefY"}"#,
        ),
        // The shorter one's tail is a block of its own.
        (
            1,
            r#"{"prompt":"0123456789ab"}"#,
            r#"{"prompt":"0123456789abcdefgh"}"#,
        ),
        (1, r#"{"prompt":[1,2,3]}"#, r#"{"prompt":[1,2,3,4]}"#),
        (
            0,
            r#"{"prompt":"01234567","model":"a"}"#,
            r#"{"prompt":"01234567","model":"b"}"#,
        ),
    ],
    no_prefix: &[
        ("prompt-embeds", r#"{"prompt_embeds":"AAAA"}"#),
        (
            "prompt-embeds",
            r#"{"prompt_embeds":["AAAA"],"prompt":"ab"}"#,
        ),
        ("empty", r#"{"prompt":""}"#),
        ("empty", r#"{"prompt":[]}"#),
        ("empty", r#"{"prompt":["",""]}"#),
        ("empty", r#"{"prompt":[[],[]]}"#),
    ],
    unreadable: &[
        (Missing, "{}"),
        (Missing, r#"{"prompt":null}"#),
        (Type, r#"{"prompt":1}"#),
        (Type, r#"{"prompt":true}"#),
        (Type, r#"{"prompt":{}}"#),
        (Type, r#"{"prompt":["a",1]}"#),
        (Type, r#"{"prompt":[1,"a"]}"#),
        (Type, r#"{"prompt":[[1],"a"]}"#),
        (Type, r#"{"prompt":[[1],2]}"#),
        (Type, r#"{"prompt":[["a"]]}"#),
        (Type, r#"{"prompt":[null]}"#),
        (Type, r#"{"prompt":[-1]}"#),
        (Type, r#"{"prompt":[1.5]}"#),
        (Type, r#"{"prompt":[1e2]}"#),
        (Type, r#"{"prompt":[4294967296]}"#),
        (Type, r#"{"prompt":[99999999999999999999999999]}"#),
        (Type, r#"{"prompt":[NaN]}"#),
        (Type, r#"{"prompt":[true]}"#),
        (Type, r#"{"prompt":"a","model":1}"#),
        (Json, r#"{"prompt":"a"}x"#),
        (Json, r#"{"prompt":"a"},"#),
        (Json, r#"{"prompt":"a","#),
        (Json, r#"{"prompt":"a","x":[1,]}"#),
        (Json, r#"{"prompt":"a",'x':1}"#),
        (Json, r#"{"prompt":"a"/**/}"#),
        (Json, r#"{"prompt":"\ud83"}"#),
        (Json, "{\"prompt\":\"a\"}\u{a0}"),
    ],
};
