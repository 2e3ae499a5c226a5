//! The two files that pages name: one of style, one of script. They are part of the program.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::Failure;

const ASSETS: &[(&str, &str, &str)] = &[
    ("style.css", "text/css; charset=utf-8", include_str!("../../assets/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("../../assets/app.js")),
];

/// A file by its exact name: there is no path to walk.
pub(crate) async fn one(Path(name): Path<String>) -> Result<Response, Failure> {
    let asset = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = asset.ok_or_else(|| Failure::missing("there is no such file"))?;
    // Kept for a while, and asked for again by a version in the name: see the page's frame.
    let headers = [(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "private, max-age=3600")];
    Ok((headers, *text).into_response())
}
