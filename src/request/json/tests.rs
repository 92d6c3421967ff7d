//! The reader against `serde_json`, and where it is more lenient on purpose.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value as Tree;

use super::*;

/// Reads a body whole, as `read` of the APIs do.
fn verdict(body: &[u8]) -> Result<(), Unreadable> {
    document(body, &[])?.try_for_each(|field| field.map(|_| ()))
}

/// The string that stands between these quotes.
fn decoded(raw: &str) -> Result<Vec<u8>, Unreadable> {
    let body = format!("{{\"x\":\"{raw}\"}}");
    let field = document(body.as_bytes(), &[])?.next().unwrap();
    match field?.1 {
        Value::String(text) => Ok(text.decoded().into_owned()),
        other => panic!("{other:?}"),
    }
}

fn string(text: Text<'_>) -> String {
    String::from_utf8(text.decoded().into_owned()).unwrap()
}

fn number(literal: &[u8]) -> Tree {
    serde_json::from_slice(literal).unwrap()
}

/// The tree of a value, by its fields and items.
fn tree(value: Value<'_>) -> Tree {
    match value {
        Value::Null => Tree::Null,
        Value::Bool(value) => value.into(),
        Value::Number(literal) => number(literal),
        Value::String(text) => string(text).into(),
        Value::Array(raw) => raw.items().map(|item| tree(item.unwrap())).collect(),
        Value::Object(raw) => raw
            .fields()
            .map(|field| field.unwrap())
            .map(|(key, value)| (string(key), tree(value)))
            .collect(),
    }
}

/// The same tree, by its events.
fn tree_of_events(raw: Raw<'_>) -> Tree {
    let mut walk = raw.walk();
    let mut open: Vec<Tree> = vec![Tree::Array(vec![])];
    let mut keys: Vec<String> = vec![];
    while let Some(event) = walk.next().unwrap() {
        let complete = match event {
            Event::Open(Shape::Array) => {
                open.push(Tree::Array(vec![]));
                continue;
            }
            Event::Open(Shape::Object) => {
                open.push(Tree::Object(serde_json::Map::new()));
                continue;
            }
            Event::Key(key) => {
                keys.push(string(key));
                continue;
            }
            Event::Close(_) => open.pop().unwrap(),
            Event::Null => Tree::Null,
            Event::Bool(value) => value.into(),
            Event::Number(literal) => number(literal),
            Event::String(text) => string(text).into(),
        };
        match open.last_mut().unwrap() {
            Tree::Array(items) => items.push(complete),
            Tree::Object(fields) => drop(fields.insert(keys.pop().unwrap(), complete)),
            other => panic!("{other:?}"),
        }
    }
    open[0][0].clone()
}

/// A tree as text whose strings are escapes all through.
fn escaped(tree: &Tree) -> String {
    let text = |text: &str| -> String {
        let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
        format!("\"{}\"", units.collect::<String>())
    };
    match tree {
        Tree::String(value) => text(value),
        Tree::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(escaped).collect::<Vec<_>>().join(" ,")
            )
        }
        Tree::Object(fields) => {
            let field =
                |(key, value): (&String, &Tree)| format!("{} :{}", text(key), escaped(value));
            format!(
                "{{{}}}",
                fields.iter().map(field).collect::<Vec<_>>().join(",")
            )
        }
        scalar => scalar.to_string(),
    }
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::from),
        any::<i64>().prop_map(Tree::from),
        // Few digits: serde_json rounds long ones by default.
        any::<i32>().prop_map(|n| Tree::from(f64::from(n) / 256.0)),
        any::<String>().prop_map(Tree::from),
        "[a\"\\\\\n\u{0}é😀]{0,80}".prop_map(Tree::from),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        let key = prop_oneof![any::<String>(), "[a\"\\\\]{0,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Tree::from),
            prop::collection::btree_map(key, inner, 0..8)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// An edit of a text: where, how many characters go, and what comes.
fn any_edit() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    (
        any::<prop::sample::Index>(),
        0..4usize,
        "[\\[\\]{}\",:\\\\ 019.eE+\\-truefalsn/]{0,4}",
    )
}

proptest! {
    #[test]
    fn reads_what_serde_json_writes(value in any_tree()) {
        let whole = serde_json::json!({ "x": value });
        let pretty = serde_json::to_string_pretty(&whole).unwrap();
        for body in [whole.to_string(), pretty, escaped(&whole)] {
            let mut fields = document(body.as_bytes(), &[]).unwrap();
            let (key, read) = fields.next().unwrap().unwrap();
            prop_assert!(fields.next().is_none());
            prop_assert_eq!(string(key), "x");
            prop_assert_eq!(&tree(read), &value);
            if let Value::Array(raw) | Value::Object(raw) = read {
                prop_assert_eq!(&tree_of_events(raw), &value);
            }
        }
    }

    #[test]
    fn agrees_with_serde_json_on_what_is_json(
        value in any_tree(),
        edits in prop::collection::vec(any_edit(), 0..3),
    ) {
        let mut characters: Vec<char> =
            serde_json::json!({ "x": value }).to_string().chars().collect();
        for (at, gone, new) in edits {
            let at = at.index(characters.len() + 1);
            let end = characters.len().min(at + gone);
            characters.splice(at..end, new.chars());
        }
        let body: String = characters.into_iter().collect();
        let valid = serde_json::from_str::<IgnoredAny>(&body).is_ok();
        let object = body.trim_start().starts_with('{');
        let expected = match (valid, object) {
            (true, true) => Ok(()),
            (true, false) => Err(Unreadable::Type),
            (false, _) => Err(Unreadable::Json),
        };
        prop_assert_eq!(verdict(body.as_bytes()), expected, "{}", body);
    }

    #[test]
    fn no_bytes_are_too_much(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = verdict(&body);
        let _ = verdict(&[b"{\"a\":", body.as_slice()].concat());
        let _ = verdict(&[b"{\"", body.as_slice(), b"\":1}"].concat());
    }

    #[test]
    fn no_json_like_text_is_too_much(body in "[\\[\\]{}\",:\\\\u 0a1d8c.eE+-]{0,60}") {
        let _ = verdict(body.as_bytes());
        let _ = verdict(format!("{{{body}}}").as_bytes());
        let _ = verdict(format!("{{\"\":[{body}]}}").as_bytes());
    }
}

#[test]
fn iterators_end_behind_an_error() {
    let raw = Raw(b"[1,]");
    assert_eq!(raw.items().count(), 2);
    let raw = Raw(b"{\"a\":1,\"b\":}");
    assert_eq!(raw.fields().count(), 2);
    let body = b"{\"a\":[1,],\"b\":2}";
    assert_eq!(document(body, &[]).unwrap().count(), 1);
    let mut items = Raw(b"[{\"a\":1,}]").items();
    match items.next_open() {
        Ok(Some(Item::Object(members))) => assert_eq!(members.count(), 2),
        _ => panic!("an object"),
    }
}

#[test]
fn strings() {
    for (raw, expected) in [
        ("", Ok(&b""[..])),
        ("abc", Ok(b"abc")),
        (r#"\"\\\/\b\f\n\r\t"#, Ok(b"\"\\/\x08\x0c\n\r\t")),
        (r"a\u0041b\u00e9", Ok("aAbé".as_bytes())),
        (r"\u0000", Ok(b"\0")),
        (
            r"\uFFFF\u0800\u07ff\u007f",
            Ok("\u{ffff}\u{800}\u{7ff}\u{7f}".as_bytes()),
        ),
        (r"\ud83d\ude00", Ok("😀".as_bytes())),
        (r"\uDBFF\uDFFF", Ok("\u{10ffff}".as_bytes())),
        // Lone surrogates, in the manner of UTF-8.
        (r"\ud800", Ok(b"\xed\xa0\x80")),
        (r"\udfff", Ok(b"\xed\xbf\xbf")),
        (r"\ud83dx", Ok(b"\xed\xa0\xbdx")),
        (r"\ud83d\n", Ok(b"\xed\xa0\xbd\n")),
        (r"\ud83d\ud83d\ude00", Ok(b"\xed\xa0\xbd\xf0\x9f\x98\x80")),
        (r"\ude00\ud83d", Ok(b"\xed\xb8\x80\xed\xa0\xbd")),
        (r"\ud83d\u0041", Ok(b"\xed\xa0\xbdA")),
        // Raw control characters.
        ("a\u{1}\n\tb", Ok(b"a\x01\n\tb")),
        // No escapes.
        (r"\x41", Err(Unreadable::Json)),
        (r"\u12", Err(Unreadable::Json)),
        (r"\u12g4", Err(Unreadable::Json)),
        (r"\u+123", Err(Unreadable::Json)),
        (r"\ud83d\u12", Err(Unreadable::Json)),
        (r"\U0041", Err(Unreadable::Json)),
        (r"\'", Err(Unreadable::Json)),
        ("\\\n", Err(Unreadable::Json)),
    ] {
        assert_eq!(
            decoded(raw).as_deref(),
            expected.as_ref().map(|bytes| *bytes),
            "{raw:?}"
        );
    }
}

#[test]
fn long_runs_of_escapes() {
    for count in 0..100 {
        assert_eq!(
            decoded(&r"\u00e9".repeat(count)).unwrap(),
            "é".repeat(count).as_bytes()
        );
        assert_eq!(
            decoded(&r"\ud83d\ude00".repeat(count)).unwrap(),
            "😀".repeat(count).as_bytes()
        );
        assert_eq!(
            decoded(&r"a\n".repeat(count)).unwrap(),
            "a\n".repeat(count).as_bytes()
        );
    }
}

#[test]
fn bodies() {
    const JSON: Result<(), Unreadable> = Err(Unreadable::Json);
    const TYPE: Result<(), Unreadable> = Err(Unreadable::Type);
    const ENCODING: Result<(), Unreadable> = Err(Unreadable::Encoding);
    let table: &[(&[u8], Result<(), Unreadable>)] = &[
        (b"{}", Ok(())),
        (b" \t\r\n{ } \n", Ok(())),
        (b"\xef\xbb\xbf{}", Ok(())),
        (b"{\"a\":NaN,\"b\":-Infinity,\"c\":Infinity}", Ok(())),
        (b"{\"a\":[-0,0e-400,1E+9,-1.50,12]}", Ok(())),
        (b"{\"\":{},\"\":[]}", Ok(())),
        (b"", JSON),
        (b"\xef\xbb\xbf", JSON),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", JSON),
        (b"{", JSON),
        (b"}", JSON),
        (b"{]", JSON),
        (b"{\"a\"}", JSON),
        (b"{\"a\":}", JSON),
        (b"{\"a\",1}", JSON),
        (b"{\"a\":1 \"b\":2}", JSON),
        (b"{\"a\":1,}", JSON),
        (b"{,}", JSON),
        (b"{1:1}", JSON),
        (b"{a:1}", JSON),
        (b"{\"a\":[1,]}", JSON),
        (b"{\"a\":[,1]}", JSON),
        (b"{\"a\":[1 2]}", JSON),
        (b"{\"a\":[1}", JSON),
        (b"{\"a\":[1}]", JSON),
        (b"{\"a\":01}", JSON),
        (b"{\"a\":+1}", JSON),
        (b"{\"a\":.5}", JSON),
        (b"{\"a\":5.}", JSON),
        (b"{\"a\":-}", JSON),
        (b"{\"a\":1e}", JSON),
        (b"{\"a\":0x1}", JSON),
        (b"{\"a\":1_0}", JSON),
        (b"{\"a\":-NaN}", JSON),
        (b"{\"a\":nan}", JSON),
        (b"{\"a\":inf}", JSON),
        (b"{\"a\":True}", JSON),
        (b"{\"a\":nul}", JSON),
        (b"{\"a\":nulll}", JSON),
        (b"{\"a\":undefined}", JSON),
        (b"{} {}", JSON),
        (b"{}\0", JSON),
        (b"{}//", JSON),
        (b"{\"a\":\x0c1}", JSON),
        (b"[]", TYPE),
        (b"[{}]", TYPE),
        (b"\"a\"", TYPE),
        (b"null", TYPE),
        (b"-1", TYPE),
        (b"1 1", JSON),
        (b"[1", JSON),
        (b"nul", JSON),
        (b"\xff\xfe{\0}\0", ENCODING),
        (b"\xfe\xff\0{\0}", ENCODING),
        (b"{\0}\0", ENCODING),
        (b"\0{\0}", ENCODING),
        (b"{\"a\":\"\xe9\"}", ENCODING),
        (b"{\"a\":\"\xc0\x80\"}", ENCODING),
        (b"{\"a\":\"\xed\xa0\x80\"}", ENCODING),
    ];
    for (body, expected) in table {
        assert_eq!(verdict(body), *expected, "{}", body.escape_ascii());
    }
}

#[test]
fn nesting_of_every_depth_is_closed_by_its_own_brackets() {
    for depth in [1, 2, 63, 64, 65, 127, 128, 129, 200] {
        // Arrays and objects in no period that a word of bits has.
        let shapes = (0..depth).map(|level| level * level % 7 < 3);
        let open: String = shapes
            .clone()
            .map(|array| if array { "[" } else { "{\"k\":" })
            .collect();
        let close: String = shapes
            .rev()
            .map(|array| if array { ']' } else { '}' })
            .collect();
        let body = format!("{{\"a\":{open}1{close}}}");
        assert_eq!(verdict(body.as_bytes()), Ok(()), "{depth}");
        for level in 0..depth {
            let mut wrong = close.clone().into_bytes();
            wrong[level] ^= b']' ^ b'}';
            let wrong = String::from_utf8(wrong).unwrap();
            let body = format!("{{\"a\":{open}1{wrong}}}");
            assert_eq!(
                verdict(body.as_bytes()),
                Err(Unreadable::Json),
                "{depth} {level}"
            );
        }
    }
}
