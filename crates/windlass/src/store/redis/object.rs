//! A JSON object as the bytes it was written in.
//!
//! Other programs put fields into a job that this one does not know, and numbers in spellings that a parser would
//! change. So an object is cut into the texts of its names and values, some are replaced, and the rest goes back byte
//! for byte. What is cut has been checked by serde_json first; this module only finds the seams.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// The fields of one JSON object, in their order. Names without their quotes, values as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object<'a> {
    fields: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Object<'a> {
    /// Cuts an object into its fields. `None` for a text that is no JSON object.
    pub(super) fn cut(text: &'a [u8]) -> Option<Object<'a>> {
        let text = serde_json::from_slice::<&RawValue>(text).ok()?.get();
        let mut cutter = Cutter { text, at: 0 };
        if cutter.next_byte() != Some(b'{') {
            return None;
        }
        let mut fields = Vec::with_capacity(16);
        while cutter.peek()? != b'}' {
            let name = cutter.value()?;
            cutter.next_byte()?;
            let value = cutter.value()?;
            fields.push((Cow::Borrowed(name.get(1..name.len() - 1)?), Cow::Borrowed(value)));
            if cutter.peek()? == b',' {
                cutter.next_byte();
            }
        }
        Some(Object { fields })
    }

    /// The text of a value; of the last one when the name comes twice, as most parsers have it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Gives a field a value, in JSON, where it stands or at the end.
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Cow<'a, str>>) {
        let value = value.into();
        match self.fields.iter().rposition(|(known, _)| known == name) {
            Some(index) => {
                self.fields[index].1 = value;
                let mut at = 0;
                self.fields.retain(|(known, _)| {
                    at += 1;
                    known != name || at == index + 1
                });
            }
            None => self.fields.push((Cow::Borrowed(name), value)),
        }
    }

    /// Takes a field out.
    pub(super) fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| known != name);
    }

    /// The object as compact JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let len: usize = self.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut json = Vec::with_capacity(len + 2);
        json.push(b'{');
        for (index, (name, value)) in self.fields.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            json.push(b'"');
            json.extend_from_slice(name.as_bytes());
            json.extend_from_slice(b"\":");
            json.extend_from_slice(value.as_bytes());
        }
        json.push(b'}');
        json
    }
}

/// Walks over valid JSON.
struct Cutter<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cutter<'a> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn next_byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// The next value: a text, a number or word, or everything up to the bracket that closes it.
    fn value(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let begin = self.at;
        match first {
            b'"' => self.skip_text()?,
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace();
                self.at += self.text.as_bytes()[self.at..].iter().position(ends)?;
            }
        }
        self.text.get(begin..self.at)
    }

    fn skip_text(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'"' => {
                    self.skip_text()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text is always JSON")
}

/// The text of a JSON string; `None` when it is none.
pub(super) fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let plain = json.strip_prefix('"')?.strip_suffix('"')?;
    if !plain.contains('\\') {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_touched_comes_back_byte_for_byte() {
        let text = r#"{"args":[1.50,"a\"}{",{"x":[1e5]}],"big":123456789012345678901,"\u0061":null,"e":{},"t":true}"#;

        let mut object = Object::cut(text.as_bytes()).unwrap();
        assert_eq!(object.to_json(), text.as_bytes());
        object.set("big", "1");
        object.remove("e");
        object.set("new", quoted("ž\n"));

        let changed = text
            .replace("123456789012345678901", "1")
            .replace(r#""e":{},"#, "")
            .replace("true}", r#"true,"new":"ž\n"}"#);
        assert_eq!(String::from_utf8(object.to_json()).unwrap(), changed);
    }

    #[test]
    fn space_between_fields_is_all_that_goes() {
        let object = Object::cut(b" { \"a\" : [ 1 , 2 ] ,\n\"b\":\"c d\" } ").unwrap();

        assert_eq!(object.to_json(), br#"{"a":[ 1 , 2 ],"b":"c d"}"#);
    }

    #[test]
    fn a_name_that_comes_twice_means_its_last_value() {
        let mut object = Object::cut(br#"{"a":1,"b":2,"a":3}"#).unwrap();

        assert_eq!(object.get("a"), Some("3"));
        object.set("a", "4");
        assert_eq!(object.to_json(), br#"{"b":2,"a":4}"#);
    }

    #[test]
    fn what_is_no_object_is_not_cut() {
        for text in [&b""[..], b"[]", b"1", b"{", b"{\"a\"}", b"{\"a\":1,}", b"\xff", b"{\"a\":\"\xff\"}", b"{} x"] {
            assert_eq!(Object::cut(text), None, "{text:?}");
        }
        assert_eq!(Object::cut(b"{}").unwrap().to_json(), b"{}");
    }

    proptest! {
        #[test]
        fn any_object_is_cut_where_its_parser_cuts_it(fields: Vec<(String, Vec<Option<String>>)>) {
            let map: serde_json::Map<String, serde_json::Value> =
                fields.into_iter().map(|(name, value)| (name, serde_json::json!({ "v": value }))).collect();
            let text = serde_json::to_string(&map).unwrap();
            let object = Object::cut(text.as_bytes()).unwrap();
            prop_assert_eq!(object.to_json(), text.as_bytes());
            for (name, value) in &map {
                let quoted = quoted(name);
                prop_assert_eq!(object.get(&quoted[1..quoted.len() - 1]), Some(&*value.to_string()));
            }
        }
    }
}
