use burst_prefix_cache::request::Api;
use burst_prefix_cache::request::Unreadable::{Json, Missing, Type};

use crate::Pairs;

#[rustfmt::skip]
pub(crate) const PAIRS: Pairs = Pairs {
    api: Api::Generate,
    same: &[
        (r#"{"text":"a"}"#,
         r#"{"text":"a","sampling_params":{"n":8,"temperature":0},"stream":true,"rid":"r","return_logprob":true,
         "modalities":["image"],"session_params":null,"input_embeds":null,"input_ids":null,"image_data":null,
         "video_data":[],"lora_path":null,"bootstrap_room":7}"#),
        (r#"{"text":"a"}"#, r#"{"text":["a"]}"#),
        (r#"{"text":["a","b"]}"#, r#"{"text":["a","","b"]}"#),
        (r#"{"input_ids":[1,2]}"#, r#"{"input_ids":[[1,2],[]]}"#),
        // Ids are taken before text, and SGLang's fields before TGI's.
        (r#"{"input_ids":[1,2]}"#, r#"{"text":"a","input_ids":[1,2]}"#),
        (r#"{"text":"a"}"#, r#"{"inputs":"b","text":"a"}"#),
        // One medium and a list of one, for one prompt and for a batch of one.
        (r#"{"text":"a","image_data":"u"}"#, r#"{"text":"a","image_data":["u"]}"#),
        (r#"{"text":"a","image_data":"u"}"#, r#"{"text":["a"],"image_data":["u"]}"#),
        (r#"{"text":"a","image_data":"u"}"#, r#"{"text":["a"],"image_data":[["u"]]}"#),
        (r#"{"text":["a","b"],"image_data":"u"}"#, r#"{"text":["a","b"],"image_data":[["u"],["u"]]}"#),
        (r#"{"text":["a","b"],"image_data":["u",null]}"#, r#"{"text":["a","b"],"image_data":[["u"],[]]}"#),
        // The seeds of a batch.
        (r#"{"text":["a","b"],"lora_path":"l"}"#, r#"{"text":["a","b"],"lora_path":["l","l"]}"#),
        (r#"{"text":"a","extra_key":"k"}"#, r#"{"text":["a"],"extra_key":["k"]}"#),
        (r#"{"text":"a","extra_key":"k","lora_path":"l"}"#, r#"{"text":["a"],"lora_path":["l"],"extra_key":["k"]}"#),
        (r#"{"text":["a"],"lora_path":[null]}"#, r#"{"text":"a"}"#),
        // TGI.
        (r#"{"inputs":"a"}"#,
         r#"{"inputs":"a","text":null,"stream":true,"parameters":{"max_new_tokens":5,"temperature":NaN,"best_of":2}}"#),
        (r#"{"inputs":"a"}"#, r#"{"inputs":"a","parameters":null}"#),
        (r#"{"inputs":"a"}"#, r#"{"inputs":"a","parameters":{"adapter_id":null,"truncate":null}}"#),
        (r#"{"inputs":"a"}"#, r#"{"text":"a"}"#),
    ],
    differ: &[
        (r#"{"text":"a"}"#, r#"{"text":"b"}"#),
        (r#"{"text":["a","b"]}"#, r#"{"text":"ab"}"#),
        (r#"{"input_ids":[[1],[2]]}"#, r#"{"input_ids":[1,2]}"#),
        (r#"{"text":"a","lora_path":"l"}"#, r#"{"text":"a","lora_path":"m"}"#),
        (r#"{"text":"a","lora_path":"l"}"#, r#"{"text":"a","extra_key":"l"}"#),
        (r#"{"text":["a","b"],"lora_path":["l","m"]}"#, r#"{"text":["a","b"],"lora_path":["m","l"]}"#),
        (r#"{"text":["a","b"],"lora_path":["l","m","n"]}"#, r#"{"text":["a","b"],"lora_path":["l","m"]}"#),
        // Media, of one kind or another, of one prompt or another.
        (r#"{"text":"a","image_data":"u"}"#, r#"{"text":"a"}"#),
        (r#"{"text":"a","image_data":"u"}"#, r#"{"text":"a","image_data":"v"}"#),
        (r#"{"text":"a","image_data":"u"}"#, r#"{"text":"a","video_data":"u"}"#),
        (r#"{"text":"a","audio_data":"u"}"#, r#"{"text":"a","video_data":"u"}"#),
        (r#"{"text":"a","image_data":["u","v"]}"#, r#"{"text":"a","image_data":["v","u"]}"#),
        (r#"{"text":"a","image_data":["u","v"]}"#, r#"{"text":"a","image_data":["u"]}"#),
        (r#"{"text":"a","image_data":["uv"]}"#, r#"{"text":"a","image_data":["u","v"]}"#),
        (r#"{"text":"a","image_data":["u"],"audio_data":["v"]}"#, r#"{"text":"a","image_data":["u","v"]}"#),
        (r#"{"text":["a","b"],"image_data":["u","v"]}"#, r#"{"text":["a","b"],"image_data":["v","u"]}"#),
        (r#"{"input_ids":[1],"image_data":{"url":"u"}}"#, r#"{"input_ids":[1],"image_data":{"url":"v"}}"#),
        // TGI.
        (r#"{"inputs":"a","parameters":{"adapter_id":"l"}}"#, r#"{"inputs":"a"}"#),
        (r#"{"inputs":"a","parameters":{"truncate":5}}"#, r#"{"inputs":"a"}"#),
    ],
    share: &[
        (1, r#"{"text":"01234567a"}"#, r#"{"text":"01234567b"}"#),
        (1, r#"{"input_ids":[1,2,3]}"#, r#"{"input_ids":[1,2,4]}"#),
        (1, r#"{"inputs":"01234567a"}"#, r#"{"inputs":"01234567b"}"#),
        (0, r#"{"text":"01234567a","lora_path":"l"}"#, r#"{"text":"01234567a","lora_path":"m"}"#),
        // A batch, with the media of each prompt: only the first prompts are alike.
        (4, r#"{"text":["01234567","b"],"image_data":["u","v"]}"#,
            r#"{"text":["01234567","b"],"image_data":["u","w"]}"#),
    ],
    no_prefix: &[
        ("empty", r#"{"text":""}"#),
        ("empty", r#"{"text":[]}"#),
        ("empty", r#"{"input_ids":[]}"#),
        ("empty", r#"{"input_ids":[[]]}"#),
        ("empty", r#"{"inputs":""}"#),
        ("empty", r#"{"text":"","image_data":"u"}"#),
        ("session", r#"{"text":"a","session_params":{"id":"s"}}"#),
        ("session", r#"{"session_params":{}}"#),
        ("session", r#"{"text":["a"],"session_params":[{"id":"s"}]}"#),
        ("prompt-embeds", r#"{"input_embeds":[[0.5]]}"#),
    ],
    unreadable: &[
        (Missing, "{}"),
        (Missing, r#"{"text":null,"inputs":null}"#),
        (Missing, r#"{"prompt":"a"}"#),
        (Type, r#"{"text":1}"#),
        (Type, r#"{"text":{}}"#),
        (Type, r#"{"text":["a",1]}"#),
        (Type, r#"{"text":[null]}"#),
        (Type, r#"{"input_ids":[1,"a"]}"#),
        (Type, r#"{"input_ids":[[1],2]}"#),
        (Type, r#"{"input_ids":[1.5]}"#),
        (Type, r#"{"inputs":1}"#),
        (Type, r#"{"text":"a","model":1}"#),
        (Json, r#"{"text":"a","image_data":[1,]}"#),
        (Json, r#"{"input_ids":[1,2}"#),
        (Json, r#"{"input_ids":[[1,2],[3,]]}"#),
        (Json, r#"{"inputs":"a"}}"#),
        // A fault in a batch whose prompts are counted first.
        (Json, r#"{"input_ids":[[1],],"lora_path":["l","m"]}"#),
        (Json, r#"{"input_ids":[[1],[2}],"image_data":["u","v"]}"#),
    ],
};
