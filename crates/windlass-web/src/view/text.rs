//! How text of a job gets into a page: so that a browser reads back the very same text, and nothing but text.

use std::fmt;

use askama::filters::Escaper;

/// Escapes what HTML gives a meaning to; a carriage return, which a browser would turn into a line feed; and NUL, which no
/// page can hold: it is shown as its picture, `␀`. Used for every value in every template, see `askama.toml`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Text;

impl Escaper for Text {
    fn write_escaped_str<W: fmt::Write>(&self, mut to: W, text: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (at, byte) in text.bytes().enumerate() {
            let Some(shown) = shown(byte) else { continue };
            to.write_str(&text[plain_from..at])?;
            to.write_str(shown)?;
            plain_from = at + 1;
        }
        to.write_str(&text[plain_from..])
    }
}

/// All of these are ASCII, so that a text may be cut before and after them.
const fn shown(byte: u8) -> Option<&'static str> {
    match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'"' => Some("&quot;"),
        b'\'' => Some("&#39;"),
        b'\r' => Some("&#13;"),
        0 => Some("\u{2400}"),
        _ => None,
    }
}

/// JSON laid out for reading, token by token: numbers keep their digits and fields their order, also doubled ones. What
/// is no JSON stays as it is.
pub(crate) fn laid_out(text: &str) -> String {
    if serde_json::from_str::<&serde_json::value::RawValue>(text).is_err() {
        return text.to_owned();
    }
    let mut layout = Layout { out: String::with_capacity(text.len() * 2), depth: 0 };
    let mut rest = text.trim();
    while !rest.is_empty() {
        let len = token_len(rest);
        let (token, after) = rest.split_at(len);
        rest = after.trim_start();
        layout.put(token, rest);
        // An empty object or array stays on its line.
        if matches!((token, rest.chars().next()), ("{", Some('}')) | ("[", Some(']'))) {
            layout.close(&rest[..1]);
            rest = rest[1..].trim_start();
        }
    }
    layout.out
}

struct Layout {
    out: String,
    depth: usize,
}

/// Deeper nesting is not indented further: it would be mostly spaces.
const DEPTH_SHOWN_MAX: usize = 32;

impl Layout {
    fn put(&mut self, token: &str, rest: &str) {
        match token {
            "{" | "[" => {
                self.out.push_str(token);
                self.depth += 1;
                if !rest.starts_with(['}', ']']) {
                    self.new_line();
                }
            }
            "}" | "]" => {
                self.depth -= 1;
                self.new_line();
                self.out.push_str(token);
            }
            "," => {
                self.out.push(',');
                self.new_line();
            }
            ":" => self.out.push_str(": "),
            other => self.out.push_str(other),
        }
    }

    fn close(&mut self, token: &str) {
        self.depth -= 1;
        self.out.push_str(token);
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth.min(DEPTH_SHOWN_MAX)));
    }
}

/// How long the token is that a valid text of JSON begins with.
fn token_len(text: &str) -> usize {
    match text.as_bytes()[0] {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        b'"' => string_len(text),
        _ => text.find(|c: char| ",:{}[]\"".contains(c) || c.is_ascii_whitespace()).unwrap_or(text.len()),
    }
}

fn string_len(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        Text.write_escaped_str(&mut out, text).unwrap();
        out
    }

    #[test]
    fn what_a_browser_would_change_is_written_so_that_it_does_not() {
        assert_eq!(
            escaped("<b a='1' c=\"2\">&\r\n\0é"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;&#13;\n\u{2400}é"
        );
    }

    #[test]
    fn json_is_laid_out_with_its_numbers_order_and_doubled_fields_kept() {
        let text = r#"{"b":1e400,"a":[12345678901234567890.10, {}],"b":"x\",y","e":[]}"#;
        let shown = "{\n  \"b\": 1e400,\n  \"a\": [\n    12345678901234567890.10,\n    {}\n  ],\n  \"b\": \"x\\\",y\",\n  \"e\": []\n}";
        assert_eq!(laid_out(text), shown);
        assert_eq!(laid_out("{no json"), "{no json");
    }

    proptest! {
        /// Only whitespace between tokens is new.
        #[test]
        fn a_layout_has_the_same_meaning(text in r#"[\[\]{}",:a1\\ ]{0,24}"#) {
            if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&laid_out(&text)).unwrap(), value);
            } else {
                prop_assert_eq!(laid_out(&text), text);
            }
        }
    }
}
