//! Arguments to JSON and back.
//!
//! A payload is always a JSON array. How a value stands in it is told by its type's [`ArgsShape`], never guessed from
//! the JSON, so that what was written is what is read.

use serde_json::value::RawValue;

use crate::error::Error;
use crate::job::{ArgsShape, Job, Payload};

/// Writes a job's arguments.
///
/// # Errors
/// [`Error::Encode`] when the value cannot be written as JSON, or is no array though its shape says so.
pub fn encode<J: Job>(job: &J) -> Result<Payload, Error> {
    let error = |detail: String| Error::Encode { kind: J::KIND.to_owned(), detail };
    let mut bytes = Vec::with_capacity(128);
    match J::SHAPE {
        ArgsShape::Empty => bytes.extend_from_slice(b"[]"),
        ArgsShape::Positional => {
            serde_json::to_writer(&mut bytes, job).map_err(|e| error(e.to_string()))?;
            if bytes.first() != Some(&b'[') {
                return Err(error("its shape is positional, and it is not written as an array".to_owned()));
            }
        }
        ArgsShape::Single => {
            bytes.push(b'[');
            serde_json::to_writer(&mut bytes, job).map_err(|e| error(e.to_string()))?;
            bytes.push(b']');
        }
    }
    Ok(Payload::from_bytes(bytes))
}

/// Why arguments could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the arguments of a job of kind {kind:?}: {detail}")]
pub struct DecodeError {
    /// Which kind.
    pub kind: &'static str,
    /// What was found.
    pub detail: String,
}

/// Reads a job's arguments.
///
/// # Errors
/// [`DecodeError`] says what was found and where.
pub fn decode<J: Job>(payload: &Payload) -> Result<J, DecodeError> {
    let error = |detail: String| DecodeError { kind: J::KIND, detail };
    let bytes = payload.as_bytes();
    match J::SHAPE {
        ArgsShape::Positional => serde_json::from_slice(bytes).map_err(|e| error(e.to_string())),
        ArgsShape::Empty => {
            let args: Vec<&RawValue> = serde_json::from_slice(bytes).map_err(|e| error(e.to_string()))?;
            match args.len() {
                0 => serde_json::from_str("null").map_err(|e| error(e.to_string())),
                len => Err(error(format!("expected no arguments, found {len}"))),
            }
        }
        ArgsShape::Single => {
            let args: Vec<&RawValue> = serde_json::from_slice(bytes).map_err(|e| error(e.to_string()))?;
            match args[..] {
                [arg] => serde_json::from_str(arg.get()).map_err(|e| error(e.to_string())),
                _ => Err(error(format!("expected one argument, found {}", args.len()))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Named {
        text: String,
        numbers: Vec<i64>,
        maybe: Option<Box<Named>>,
    }

    impl Job for Named {
        const KIND: &'static str = "named";
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Pair(String, Vec<u32>);

    impl Job for Pair {
        const KIND: &'static str = "pair";
        const SHAPE: ArgsShape = ArgsShape::Positional;
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nothing;

    impl Job for Nothing {
        const KIND: &'static str = "nothing";
        const SHAPE: ArgsShape = ArgsShape::Empty;
    }

    #[test]
    fn each_shape_has_its_own_form() {
        let named = Named { text: "a".to_owned(), numbers: vec![1], maybe: None };

        assert_eq!(encode(&named).unwrap().to_text(), r#"[{"text":"a","numbers":[1],"maybe":null}]"#);
        assert_eq!(encode(&Pair("a".to_owned(), vec![2])).unwrap().to_text(), r#"["a",[2]]"#);
        assert_eq!(encode(&Nothing).unwrap().to_text(), "[]");
        assert_eq!(decode::<Nothing>(&Payload::from_bytes("[]")), Ok(Nothing));
    }

    #[test]
    fn arguments_of_another_shape_are_an_error_with_the_kind() {
        for payload in ["[]", "[1,2]", "[{}]", "nonsense", "[", "{}"] {
            let error = decode::<Named>(&Payload::from_bytes(payload)).unwrap_err();
            assert!(error.to_string().contains("\"named\""), "{error}");
        }
        assert!(decode::<Nothing>(&Payload::from_bytes("[1]")).is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_what_is_read(text: String, numbers: Vec<i64>, inner: Option<String>) {
            let maybe = inner.map(|text| Box::new(Named { text, numbers: Vec::new(), maybe: None }));
            let named = Named { text, numbers, maybe };
            prop_assert_eq!(decode::<Named>(&encode(&named).unwrap()).unwrap(), named);
        }

        #[test]
        fn positions_are_read_back_as_positions(text: String, numbers: Vec<u32>) {
            let pair = Pair(text, numbers);
            prop_assert_eq!(decode::<Pair>(&encode(&pair).unwrap()).unwrap(), pair);
        }
    }
}
