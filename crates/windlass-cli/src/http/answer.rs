//! What a web service's answer means for the job.
//!
//! | the answer | the job |
//! |---|---|
//! | 2xx | done, with status and body as its result |
//! | 429 and 503 with `Retry-After` | failed: runs again when the service asks for it, a day later at most |
//! | 400, 410, 413, 415, 422 | dead: the service will not take it however often it is sent |
//! | a redirect | failed: it is not followed |
//! | anything else, or no answer | failed: runs again by its retry policy |

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use windlass::outcome::{IntoOutcome, Json};
use windlass::{HandlerError, Outcome, Timestamp};

/// Statuses after which another attempt cannot help.
const HOPELESS: &[u16] = &[400, 410, 413, 415, 422];
/// The longest a service can put a job off.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Characters of a body in an error.
const ERROR_BODY_LEN: usize = 2_000;

/// An answer as it is judged.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) location: Option<String>,
    pub(super) body: Vec<u8>,
    /// Whether there was more of the body.
    pub(super) is_cut: bool,
}

/// The result of a finished job.
#[derive(Debug, Serialize)]
struct Finished<'a> {
    status: u16,
    body: Body<'a>,
    cut: bool,
}

/// JSON as it came, or text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(&'a RawValue),
    Text(String),
}

impl Answer {
    /// The outcome of the job; `now` is what a date is measured from.
    pub(super) fn into_outcome(self, now: Timestamp) -> Outcome {
        let status = self.status;
        if status.is_success() {
            let finished = Finished { status: status.as_u16(), body: self.body(), cut: self.is_cut };
            return Json(finished).into_outcome();
        }
        let error = HandlerError::with_class(format!("Http{}", status.as_u16()), self.complaint());
        if HOPELESS.contains(&status.as_u16()) {
            return Outcome::Dead(error);
        }
        let may_ask = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        match self.retry_after.as_deref().filter(|_| may_ask).and_then(|text| retry_after(text, now)) {
            Some(after) => Outcome::Retry { after, error },
            None => Outcome::Failed(error),
        }
    }

    fn body(&self) -> Body<'_> {
        let media = self.content_type.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let is_json = media.eq_ignore_ascii_case("application/json") || media.ends_with("+json");
        match serde_json::from_slice(&self.body) {
            Ok(json) if is_json && !self.is_cut => Body::Json(json),
            _ => Body::Text(self.text()),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn complaint(&self) -> String {
        let status = self.status;
        if let Some(location) = self.location.as_deref().filter(|_| status.is_redirection()) {
            let location: String = location.chars().take(ERROR_BODY_LEN).collect();
            return format!("the service answered {status} to {location}: redirects are not followed");
        }
        let text: String = self.text().trim().chars().take(ERROR_BODY_LEN).collect();
        match text.is_empty() {
            true => format!("the service answered {status}"),
            false => format!("the service answered {status}: {text}"),
        }
    }
}

/// Seconds, or a date.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let after = match is_number {
        // A number beyond what fits is beyond what is granted, too.
        true => text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs),
        false => {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now.as_millis().max(0) as u64);
            httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()
        }
    };
    Some(after.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT

    fn answer(status: u16) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        let (retry_after, content_type, location) = (None, None, None);
        Answer { status, retry_after, content_type, location, body: b" no luck ".to_vec(), is_cut: false }
    }

    fn after(status: u16, text: &str) -> Option<Duration> {
        let answer = Answer { retry_after: Some(text.to_owned()), ..answer(status) };
        match answer.into_outcome(NOW) {
            Outcome::Retry { after, .. } => Some(after),
            Outcome::Failed(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn result(answer: Answer) -> serde_json::Value {
        match answer.into_outcome(NOW) {
            Outcome::DoneWith(result) => serde_json::from_slice(result.as_bytes()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statuses_mean_what_is_documented() {
        for status in [200, 201, 204] {
            assert!(matches!(answer(status).into_outcome(NOW), Outcome::DoneWith(_)), "{status}");
        }
        for status in [400, 410, 413, 415, 422] {
            assert!(matches!(answer(status).into_outcome(NOW), Outcome::Dead(_)), "{status}");
        }
        for status in [301, 307, 401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504] {
            let Outcome::Failed(error) = answer(status).into_outcome(NOW) else { panic!("{status}") };
            assert_eq!(error.class(), format!("Http{status}"));
            assert!(error.message().ends_with(": no luck"), "{}", error.message());
        }
    }

    #[test]
    fn a_service_may_say_when_to_come_again() {
        for status in [429, 503] {
            assert_eq!(after(status, " 7 "), Some(Duration::from_secs(7)));
            assert_eq!(after(status, "Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_secs(60)));
            assert_eq!(after(status, "Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
            assert_eq!(after(status, "99999999999999999999999"), Some(RETRY_AFTER_MAX));
            for nonsense in ["", "-1", "soon", "1.5"] {
                assert_eq!(after(status, nonsense), None, "{nonsense}");
            }
        }
        assert_eq!(after(500, "7"), None);
    }

    #[test]
    fn a_body_is_kept_as_json_when_it_is_and_as_text_otherwise() {
        let json = |content_type: &str, is_cut| Answer {
            content_type: Some(content_type.to_owned()),
            body: br#"{"a":1}"#.to_vec(),
            is_cut,
            ..answer(200)
        };

        assert_eq!(result(json("application/json; charset=utf-8", false))["body"]["a"], 1);
        assert_eq!(result(json("application/problem+json", false))["body"]["a"], 1);
        assert_eq!(result(json("text/plain", false))["body"], r#"{"a":1}"#);
        assert_eq!(result(json("application/json", true))["cut"], true);
        assert_eq!(result(answer(200))["body"], " no luck ");
    }

    #[test]
    fn a_redirect_is_not_followed_and_says_where_it_led() {
        let moved = Answer { location: Some("http://elsewhere.test/".to_owned()), ..answer(307) };

        let Outcome::Failed(error) = moved.into_outcome(NOW) else { panic!() };

        assert!(error.message().contains("http://elsewhere.test/: redirects are not followed"), "{}", error.message());
    }
}
