//! What every request passes before it reaches a page: who it is from, what they may do, and whether a page of somebody
//! else made their browser send it.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::auth::{Denied, Identity, Peer, Role};
use crate::refusal::{Asker, Refusal, dress};
use crate::routes::Access;
use crate::view::Theme;

/// Nothing from elsewhere, nothing inline, no frame around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
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

/// Puts the headers that keep browsers careful on every answer, errors too, and gives errors the form for who asked.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let whole = request.extensions().get::<OriginalUri>().map_or_else(|| request.uri().clone(), |uri| uri.0.clone());
    let base = base(&whole, request.uri()).to_owned();
    let chosen = Theme::chosen(request.uri().query().unwrap_or_default());
    let theme = chosen.or_else(|| Theme::remembered(request.headers()));
    let asker = Asker::new(base, request.uri().path(), request.headers(), theme);
    let mut response = dress(next.run(request).await, &asker).await;
    if let Some(theme) = chosen {
        theme.remember(&mut response, &asker.base);
    }
    for (name, value) in &HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The path under which the dashboard is mounted, without a slash at the end: what the router that mounts it took off.
pub(crate) fn base<'a>(whole: &'a Uri, inner: &Uri) -> &'a str {
    whole.path().strip_suffix(inner.path()).unwrap_or(whole.path()).trim_end_matches('/')
}

/// Lets a request through to a route of this access.
pub(crate) async fn admit(
    State((shared, access)): State<(Shared, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    if access == Access::Open {
        return next.run(request).await;
    }
    match check(&shared, access, &Asked::of(&request)).await {
        Ok(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// What of a request decides, without its body.
struct Asked {
    method: Method,
    headers: HeaderMap,
    uri_host: Option<String>,
    peer: Option<IpAddr>,
}

impl Asked {
    fn of(request: &Request) -> Asked {
        let extensions = request.extensions();
        let connected = || extensions.get::<ConnectInfo<SocketAddr>>().map(|connected| connected.0.ip());
        Asked {
            method: request.method().clone(),
            headers: request.headers().clone(),
            uri_host: request.uri().host().map(str::to_owned),
            peer: extensions.get::<Peer>().map(|peer| peer.0).or_else(connected),
        }
    }
}

// 1. Is it to this machine, where nobody is asked who they are?  2. Who is it?  3. May they?
async fn check(shared: &Shared, access: Access, asked: &Asked) -> Result<Identity, Refusal> {
    let headers = &asked.headers;
    let is_expected = || is_loopback_name(headers, asked.uri_host.as_deref()) || shared.is_trusted_host(headers);
    if shared.gate.is_open() && !is_expected() {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "without authentication only requests to localhost are answered: another name may be a trick",
        ));
    }
    let identity = shared.gate.who(headers, asked.peer).await.map_err(|denied| deny(shared, denied))?;
    if access == Access::Act {
        may_act(shared, &identity, asked)?;
    }
    Ok(identity)
}

fn deny(shared: &Shared, denied: Denied) -> Refusal {
    match denied {
        Denied::TooMany => Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong answers: try again in a minute"),
        Denied::Unknown => {
            Refusal::new(StatusCode::UNAUTHORIZED, "who are you?").with_challenge(shared.gate.challenge())
        }
    }
}

fn may_act(shared: &Shared, identity: &Identity, asked: &Asked) -> Result<(), Refusal> {
    if asked.method != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "what changes something is a POST"));
    }
    if identity.role < Role::Act || shared.options.is_read_only {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "you may look, and not change anything"));
    }
    if is_own_page(shared, identity, &asked.headers) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, "this request does not come from a page of this dashboard"))
}

/// Whether the request was made by our own page, or by a program. Browsers say where a request comes from; what says
/// nothing is a program, and is believed if a browser could not have been made to send it: with a token, or, where a
/// browser adds the credentials by itself, with the type of JSON, which also a request without a body may name.
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
