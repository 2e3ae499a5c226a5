//! Answers of the server, taken apart.

use redis::Value;

use crate::error::StoreError;

fn surprise(tried: &'static str, found: &Value) -> StoreError {
    let found: String = format!("{found:?}").chars().take(120).collect();
    StoreError::Refused {
        tried: "understand",
        store: format!("the server's answer to {tried}"),
        found,
        hint: "is it a Redis or Valkey of 6.2 or newer?".to_owned(),
    }
}

/// A list, or a list for nothing.
pub(super) fn list(tried: &'static str, value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        other => Err(surprise(tried, &other)),
    }
}

pub(super) fn number(tried: &'static str, value: &Value) -> Result<i64, StoreError> {
    let parsed = match value {
        Value::Int(number) => Some(*number),
        Value::Nil => Some(0),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    parsed.ok_or_else(|| surprise(tried, value))
}

pub(super) fn numbers(tried: &'static str, value: Value) -> Result<Vec<i64>, StoreError> {
    list(tried, value)?.iter().map(|value| number(tried, value)).collect()
}

pub(super) fn bytes(tried: &'static str, value: Value) -> Result<Vec<u8>, StoreError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        other => Err(surprise(tried, &other)),
    }
}

pub(super) fn text(tried: &'static str, value: Value) -> Result<String, StoreError> {
    bytes(tried, value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A list of byte strings; what is missing is left out.
pub(super) fn all_bytes(tried: &'static str, value: Value) -> Result<Vec<Vec<u8>>, StoreError> {
    let present = list(tried, value)?.into_iter().filter(|value| *value != Value::Nil);
    present.map(|value| bytes(tried, value)).collect()
}

/// A list of texts.
pub(super) fn texts(tried: &'static str, value: Value) -> Result<Vec<String>, StoreError> {
    list(tried, value)?.into_iter().map(|value| text(tried, value)).collect()
}

/// Byte strings, or nothing where there is none.
pub(super) fn maybe_bytes(tried: &'static str, value: Value) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let each = |value| if value == Value::Nil { Ok(None) } else { bytes(tried, value).map(Some) };
    list(tried, value)?.into_iter().map(each).collect()
}

/// Members of a sorted set with their scores.
pub(super) fn scored(tried: &'static str, value: Value) -> Result<Vec<(Vec<u8>, f64)>, StoreError> {
    let mut members = Vec::new();
    let mut values = list(tried, value)?.into_iter();
    while let (Some(member), Some(score)) = (values.next(), values.next()) {
        let score = text(tried, score)?;
        let number = score.parse().map_err(|_| surprise(tried, &Value::SimpleString(score)))?;
        members.push((bytes(tried, member)?, number));
    }
    Ok(members)
}
