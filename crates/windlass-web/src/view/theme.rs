//! Dark, light, or as the system has it: chosen by `?theme=`, remembered by a cookie, known before the page is drawn.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

/// The cookie's name; the script of the pages writes it as well.
const COOKIE: &str = "windlass-theme";
/// A year, in seconds.
const AGE_MAX: u32 = 31_536_000;

/// How pages are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Auto,
    Dark,
    Light,
}

impl Theme {
    const ALL: [Theme; 3] = [Theme::Auto, Theme::Dark, Theme::Light];

    const fn name(self) -> &'static str {
        match self {
            Theme::Auto => "auto",
            Theme::Dark => "dark",
            Theme::Light => "light",
        }
    }

    fn parse(text: &str) -> Option<Theme> {
        Theme::ALL.into_iter().find(|theme| theme.name() == text)
    }

    /// The one that a query asks for.
    pub(crate) fn chosen(query: &str) -> Option<Theme> {
        form_urlencoded::parse(query.as_bytes())
            .find(|(name, _)| name == "theme")
            .and_then(|(_, text)| Theme::parse(&text))
    }

    /// The one chosen before.
    pub(crate) fn remembered(headers: &HeaderMap) -> Option<Theme> {
        let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = texts.flat_map(|text| text.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.find(|(name, _)| *name == COOKIE).and_then(|(_, text)| Theme::parse(text))
    }

    /// Has the browser remember it, for the pages below `base`.
    pub(crate) fn remember(self, response: &mut Response, base: &str) {
        let path = if base.is_empty() { "/" } else { base };
        if path.contains(';') {
            return; // It would end the cookie's path and begin something else.
        }
        let cookie = format!("{COOKIE}={self}; Path={path}; Max-Age={AGE_MAX}; SameSite=Strict");
        // A path that no header can hold is not remembered for.
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
