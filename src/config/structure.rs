//! The two forms in which Envoy hands a configuration over.
//!
//! A `StringValue` comes as its text. A `Struct` comes as its serialized protobuf bytes, not as
//! JSON, whatever Envoy's documentation says (measured, 1.36 to 1.40).

use prost::Message;
use prost_types::Struct;
use prost_types::value::Kind;
use serde_json::{Map, Number, Value};

use super::ConfigError;

/// The fields of the configuration, from either form.
///
/// # Errors
/// The bytes are neither a JSON object nor a `Struct`.
pub(super) fn fields(bytes: &[u8]) -> Result<Map<String, Value>, ConfigError> {
    /// What a `Struct` with a field begins with; for JSON it is white space.
    const FIRST_FIELD: u8 = 0x0a;
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(value) => {
            let found = format!("found {}", super::fields::shown(&value));
            Err(ConfigError::NotAnObject(found))
        }
        // A `Struct` without fields has no bytes.
        Err(_) if bytes.is_empty() => Ok(Map::new()),
        Err(error) => match (bytes.first(), Struct::decode(bytes)) {
            (Some(&FIRST_FIELD), Ok(fields)) => Ok(object(fields)),
            _ => Err(ConfigError::NotAnObject(error.to_string())),
        },
    }
}

fn object(fields: Struct) -> Map<String, Value> {
    let fields = fields.fields.into_iter();
    fields.map(|(key, value)| (key, json(value.kind))).collect()
}

/// Recursive, but not without bound: the decoder goes 100 levels deep at most.
fn json(kind: Option<Kind>) -> Value {
    match kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => number_of(number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::StructValue(fields)) => Value::Object(object(fields)),
        Some(Kind::ListValue(list)) => {
            Value::Array(list.values.into_iter().map(|v| json(v.kind)).collect())
        }
    }
}

/// A `Struct` has doubles only; a whole one is shown as the user wrote it.
fn number_of(number: f64) -> Value {
    let whole = super::fields::whole_double(number).map(Number::from);
    let number = whole.or_else(|| Number::from_f64(number));
    number.map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn value(json: &Value) -> prost_types::Value {
        let kind = match json {
            Value::Null => Kind::NullValue(0),
            Value::Bool(flag) => Kind::BoolValue(*flag),
            Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
            Value::String(text) => Kind::StringValue(text.clone()),
            Value::Array(items) => Kind::ListValue(prost_types::ListValue {
                values: items.iter().map(value).collect(),
            }),
            Value::Object(fields) => Kind::StructValue(structure(fields)),
        };
        prost_types::Value { kind: Some(kind) }
    }

    fn structure(fields: &Map<String, Value>) -> Struct {
        let fields = fields.iter().map(|(key, v)| (key.clone(), value(v)));
        Struct {
            fields: fields.collect(),
        }
    }

    #[test]
    fn a_struct_is_read_as_the_json_it_was_written_as() {
        for json in [
            r#"{"windowDurationMs":100,"replicas":{"static":["127.0.0.1:8001"]},"x":[null,true,-1.5,{"y":"z"}]}"#,
            r#"{"replicas":{"envoyAdmin":{"adminCluster":"a","cluster":"*","refreshMs":250}}}"#,
            r#"{"a":1}"#,
            "{}",
        ] {
            let Ok(Value::Object(object)) = serde_json::from_str(json) else {
                panic!("{json}");
            };
            let bytes = structure(&object).encode_to_vec();
            assert_eq!(fields(&bytes).unwrap(), object, "{json}");
            assert_eq!(fields(json.as_bytes()).unwrap(), object, "{json}");
        }
    }

    #[test]
    fn a_bad_struct_is_refused_by_name_value_and_range() {
        let Value::Object(object) = serde_json::json!({"windowDurationMs": 0, "replicas": {}})
        else {
            panic!("an object");
        };
        let error = Config::parse(&structure(&object).encode_to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "windowDurationMs: 0 is refused; it takes a whole number from 1 to 10000"
        );
    }

    #[test]
    fn neither_form_is_refused() {
        for bytes in [&b"\n"[..], b"\n\xff\xff", b"\x00", b"\n{", b"null", b"[1]"] {
            assert!(fields(bytes).is_err(), "{bytes:?}");
        }
    }
}
