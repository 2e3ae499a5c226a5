//! What every request passes before it reaches a page: who it is from, what they may do, and whether a page of somebody
//! else made their browser send it.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::auth::{Denied, Identity, Peer, Role};
use crate::routes::Access;

/// Nothing from elsewhere, nothing inline, no frame around it.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

static HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Puts the headers that keep browsers careful on every answer, errors too.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in &HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets a request through to a route of this access.
pub(crate) async fn admit(
    State((shared, access)): State<(Shared, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    match check(&shared, access, &request) {
        Ok(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(refusal) => refusal,
    }
}

fn check(shared: &Shared, access: Access, request: &Request) -> Result<Identity, Response> {
    let headers = request.headers();
    if shared.gate.is_open() && !is_loopback_name(headers, request.uri().host()) && !shared.is_trusted_host(headers) {
        return Err(refuse(
            StatusCode::FORBIDDEN,
            "without authentication only requests to localhost are answered: another name may be a trick",
        ));
    }
    let peer = request.extensions().get::<Peer>().copied();
    let identity = shared.gate.who(headers, peer).map_err(|denied| deny(shared, denied))?;
    if access == Access::Act {
        may_act(shared, &identity, request)?;
    }
    Ok(identity)
}

fn deny(shared: &Shared, denied: Denied) -> Response {
    match denied {
        Denied::TooMany => refuse(StatusCode::TOO_MANY_REQUESTS, "too many wrong answers: try again in a minute"),
        Denied::Unknown => {
            let mut response = refuse(StatusCode::UNAUTHORIZED, "who are you?");
            let challenge = HeaderValue::from_static(shared.gate.challenge());
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
    }
}

fn may_act(shared: &Shared, identity: &Identity, request: &Request) -> Result<(), Response> {
    if identity.role < Role::Act || shared.options.is_read_only {
        return Err(refuse(StatusCode::FORBIDDEN, "you may look, and not change anything"));
    }
    debug_assert!(request.method() == Method::POST, "what changes something is a POST");
    if is_own_page(shared, identity, request.headers()) {
        return Ok(());
    }
    Err(refuse(StatusCode::FORBIDDEN, "this request does not come from a page of this dashboard"))
}

/// Whether the request was made by our own page, or by a program. Browsers say where a request comes from; what says
/// nothing is a program, and is believed if a browser could not have been made to send it.
fn is_own_page(shared: &Shared, identity: &Identity, headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or("null"));
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || origin.is_some_and(|origin| shared.is_trusted_origin(origin));
    }
    match origin {
        Some(origin) => is_same_host(origin, headers) || shared.is_trusted_origin(origin),
        None => !identity.is_ambient || is_json(headers),
    }
}

fn is_same_host(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let of_origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some() && host == of_origin
}

/// A page elsewhere cannot send this type without asking first, and is told no.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json"))
}

/// A page elsewhere may have its own name point at this machine; then the name gives it away.
fn is_loopback_name(headers: &HeaderMap, uri_host: Option<&str>) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(uri_host);
    let Some(host) = host else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A refusal in words.
pub(crate) fn refuse(status: StatusCode, why: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{why}\n")).into_response()
}
