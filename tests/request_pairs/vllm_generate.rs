use burst_prefix_cache::request::Api;
use burst_prefix_cache::request::Unreadable::{Json, Missing, Type};

use crate::Pairs;

#[rustfmt::skip]
pub(crate) const PAIRS: Pairs = Pairs {
    api: Api::VllmGenerate,
    same: &[
        (r#"{"token_ids":[1,2,3]}"#, "{\"token_ids\":[ 1 ,\n2,3 ]}"),
        (r#"{"token_ids":[1,2,3]}"#,
         r#"{"token_ids":[1,2,3],"request_id":"r","sampling_params":{"n":8,"seed":1},"stream":true,
         "priority":1,"kv_transfer_params":{"a":1},"features":null,"cache_salt":null,"prompt":"p"}"#),
        (r#"{"token_ids":[1,2,3]}"#, r#"{"token_ids":[9],"features":{},"token_ids":[1,2,3]}"#),
        // Media are known by their hashes; their data is sent along or not.
        (r#"{"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}}"#,
         r#"{"token_ids":[1],"features":{"mm_placeholders":{"image":[{"offset":0,"length":1}]},
         "kwargs_data":{"image":["AAAA"]},"mm_hashes":{"image":["a"]}}}"#),
    ],
    differ: &[
        (r#"{"token_ids":[1,2,3]}"#, r#"{"token_ids":[1,2]}"#),
        (r#"{"token_ids":[1,2,3]}"#, r#"{"token_ids":[3,2,1]}"#),
        (r#"{"token_ids":[1]}"#, r#"{"token_ids":[1],"model":"m"}"#),
        (r#"{"token_ids":[1]}"#, r#"{"token_ids":[1],"cache_salt":"s"}"#),
        (r#"{"token_ids":[1]}"#, r#"{"token_ids":[1],"features":"f"}"#),
        (r#"{"token_ids":[1],"features":"f"}"#, r#"{"token_ids":[1],"features":"g"}"#),
        (r#"{"token_ids":[1],"features":{"mm_hashes":{"image":["a"]}}}"#,
         r#"{"token_ids":[1],"features":{"mm_hashes":{"image":["b"]}}}"#),
        (r#"{"token_ids":[1],"features":{"mm_hashes":{"image":["a"]}}}"#,
         r#"{"token_ids":[1],"features":{"mm_hashes":{"video":["a"]}}}"#),
        (r#"{"token_ids":[1],"features":{"kwargs_data":{"image":["a"]}}}"#,
         r#"{"token_ids":[1],"features":{"kwargs_data":{"image":["b"]}}}"#),
    ],
    share: &[
        (1, r#"{"token_ids":[1,2,3]}"#, r#"{"token_ids":[1,2,3,4]}"#),
        (2, r#"{"token_ids":[1,2,3,4,5]}"#, r#"{"token_ids":[1,2,3,4,6]}"#),
        (0, r#"{"token_ids":[1,2,3,4],"model":"a"}"#, r#"{"token_ids":[1,2,3,4],"model":"b"}"#),
        // The media's frame takes 18 bytes.
        (3, r#"{"token_ids":[1,2,3,4],"features":"f"}"#, r#"{"token_ids":[1,2,3,5],"features":"f"}"#),
        (0, r#"{"token_ids":[1,2,3,4],"features":"f"}"#, r#"{"token_ids":[1,2,3,4],"features":"g"}"#),
    ],
    no_prefix: &[
        ("empty", r#"{"token_ids":[]}"#),
        ("empty", r#"{"token_ids":[ ],"features":"f"}"#),
    ],
    unreadable: &[
        (Missing, "{}"),
        (Missing, r#"{"token_ids":null}"#),
        (Missing, r#"{"prompt":"a","text":"a","input_ids":[1]}"#),
        (Type, r#"{"token_ids":"a"}"#),
        (Type, r#"{"token_ids":["a"]}"#),
        (Type, r#"{"token_ids":[[1]]}"#),
        (Type, r#"{"token_ids":[1,"2"]}"#),
        (Type, r#"{"token_ids":[1,null]}"#),
        (Type, r#"{"token_ids":[1,{}]}"#),
        (Type, r#"{"token_ids":[1,[2]]}"#),
        (Type, r#"{"token_ids":[-1]}"#),
        (Type, r#"{"token_ids":[1,1.0]}"#),
        (Type, r#"{"token_ids":[4294967296]}"#),
        (Json, r#"{"token_ids":[01]}"#),
        (Json, r#"{"token_ids":[1,]}"#),
        (Json, r#"{"token_ids":[1 2]}"#),
        (Json, r#"{"token_ids":[1,,2]}"#),
        (Json, r#"{"token_ids":[,1]}"#),
        (Json, r#"{"token_ids":[1}"#),
        (Json, r#"{"token_ids":[1e]}"#),
        (Json, r#"{"token_ids":[+1]}"#),
    ],
};
