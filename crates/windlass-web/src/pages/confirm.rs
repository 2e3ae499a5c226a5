//! Asks back before what cannot be undone. The script of the pages asks by itself and sends `sure=yes`; without it, the
//! answer to the first request is a page with the question, whose form repeats the request.

use askama::Template;
use axum::response::Response;

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::filters;

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    frame: Frame,
    question: String,
    /// Where the request went, and goes again.
    action: String,
    /// What it carried.
    fields: Vec<(String, String)>,
    /// Where the person was.
    back: String,
}

/// The fields of a form.
#[derive(Debug)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(body: &[u8]) -> Fields {
        Fields(form_urlencoded::parse(body).into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the person has been asked.
    pub(crate) fn is_sure(&self) -> bool {
        self.get("sure") == Some("yes")
    }
}

/// The page with the question.
pub(crate) async fn ask(
    shared: &Shared,
    visit: Visit,
    question: String,
    action: String,
    fields: Fields,
    back: String,
) -> Result<Response, Failure> {
    let frame = visit.frame(shared).await?;
    let mut fields: Vec<_> = fields.0.into_iter().filter(|(name, _)| name != "sure" && name != "back").collect();
    fields.push(("back".to_owned(), back.clone()));
    html(&Confirm { frame, question, action, fields, back })
}
