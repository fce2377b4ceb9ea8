//! JSON as gRPC carries it.

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Map, Number};

/// Integers up to here are the same as a double.
const EXACT_MAX: u64 = 1 << 53;

/// A JSON object. Integers beyond 2^53, which a double does not hold, become text.
#[must_use]
pub fn to_struct(object: Map<String, serde_json::Value>) -> Struct {
    let fields = object
        .into_iter()
        .map(|(name, value)| (name, to_value(value)));
    Struct {
        fields: fields.collect(),
    }
}

/// The JSON object that [`to_struct`] was given.
#[must_use]
pub fn from_struct(source: Struct) -> Map<String, serde_json::Value> {
    let fields = source.fields.into_iter();
    fields
        .map(|(name, value)| (name, from_value(value)))
        .collect()
}

fn to_value(value: serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(value),
        serde_json::Value::Number(value) => match value.as_u64() {
            Some(integer) if integer > EXACT_MAX => Kind::StringValue(integer.to_string()),
            _ => Kind::NumberValue(value.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(value) => Kind::StringValue(value),
        serde_json::Value::Array(values) => Kind::ListValue(ListValue {
            values: values.into_iter().map(to_value).collect(),
        }),
        serde_json::Value::Object(object) => Kind::StructValue(to_struct(object)),
    };
    Value { kind: Some(kind) }
}

fn from_value(value: Value) -> serde_json::Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(value)) => value.into(),
        Some(Kind::NumberValue(value)) if is_integer(value) => (value as u64).into(),
        Some(Kind::NumberValue(value)) => {
            Number::from_f64(value).map_or(serde_json::Value::Null, serde_json::Value::Number)
        }
        Some(Kind::StringValue(value)) => value.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(from_value).collect(),
        Some(Kind::StructValue(source)) => from_struct(source).into(),
    }
}

fn is_integer(value: f64) -> bool {
    value.fract() == 0.0 && (0.0..=EXACT_MAX as f64).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_survives_a_round_trip() {
        let source = json!({
            "port": "p0", "up": true, "epoch": 5, "ratio": 0.5, "nothing": null,
            "changed": ["a", "b"], "refusal": { "cause": "own_port", "deep": [1, { "x": 2 }] },
        });
        let object = source.as_object().expect("an object").clone();
        assert_eq!(from_struct(to_struct(object.clone())), object);
    }

    #[test]
    fn an_integer_that_a_double_does_not_hold_is_text() {
        let object = json!({ "guid": u64::MAX, "last": EXACT_MAX });
        let source = to_struct(object.as_object().expect("an object").clone());
        assert_eq!(
            serde_json::Value::from(from_struct(source)),
            json!({ "guid": u64::MAX.to_string(), "last": EXACT_MAX })
        );
    }
}
