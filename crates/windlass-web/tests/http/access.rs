//! Who gets in, and who may act: every route, from the table of routes, with every kind of credentials.

use std::net::IpAddr;

use argon2::{Argon2, PasswordHasher as _};
use axum::Router;
use axum::http::{Method, StatusCode};
use windlass_web::auth::{Peer, Role, Secret, Token, User};
use windlass_web::{Access, Auth, Options, ROUTES, Route, router};

use super::support::{Answer, ID, Watched, ask, get};

const LOOKER: &str = "Bearer the-token-of-one-who-looks";
const ACTOR: &str = "Bearer the-token-of-one-who-acts";

fn tokens() -> Auth {
    let token = |text: &str, role| Token { token: Secret::new(text.strip_prefix("Bearer ").unwrap()), role };
    Auth::Bearer(vec![token(LOOKER, Role::View), token(ACTOR, Role::Act)])
}

fn guarded(auth: Auth) -> Router {
    router(Watched::saying("mail"), Options { auth, ..Options::default() })
}

/// A path of this route that leads somewhere.
fn path(route: &Route) -> String {
    let verb = match route.path {
        path if path.contains("queue") => "pause",
        path if path.contains("process") => "quiet",
        _ => "requeue",
    };
    let path = route.path.replace("{id}", &ID.to_string()).replace("{verb}", verb).replace("{name}", "style.css");
    format!("{path}?name=mail&id=all")
}

fn method(route: &Route) -> Method {
    if route.access == Access::Act { Method::POST } else { Method::GET }
}

async fn visit(router: &Router, route: &Route, headers: &[(&str, &str)]) -> Answer {
    ask(router, method(route), &path(route), headers, "").await
}

fn is_careful(answer: &Answer) {
    assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{answer:?}");
    assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(answer.header("x-frame-options"), "DENY");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin");
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    assert!(!answer.header("cache-control").is_empty());
    assert_eq!(answer.header("server"), "");
}

#[tokio::test]
async fn nobody_enters_any_route_without_good_credentials() {
    let app = guarded(tokens());
    let bad: [&[(&str, &str)]; 9] = [
        &[],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "Bearer the-token-of-one-who-act")],
        &[("authorization", "Bearer the-token-of-one-who-actss")],
        &[("authorization", "Bearer THE-TOKEN-OF-ONE-WHO-ACTS")],
        &[("authorization", "Bearer ")],
        &[("authorization", "Basic the-token-of-one-who-acts")],
        &[("authorization", ACTOR), ("authorization", ACTOR)],
        &[("x-forwarded-user", "admin"), ("x-forwarded-for", "127.0.0.1")],
    ];
    for route in ROUTES.iter().filter(|route| route.access != Access::Open) {
        for headers in bad {
            let answer = visit(&app, route, headers).await;
            let is_refused = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS].contains(&answer.status);
            assert!(is_refused, "{} with {headers:?}: {answer:?}", route.path);
            assert!(!answer.body.contains("mail"), "{answer:?}");
            is_careful(&answer);
        }
    }
}

#[tokio::test]
async fn a_viewer_looks_everywhere_and_acts_nowhere() {
    let app = guarded(tokens());
    for route in ROUTES {
        let answer = visit(&app, route, &[("authorization", LOOKER)]).await;
        match route.access {
            Access::Act => assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {answer:?}", route.path),
            _ => assert_eq!(answer.status, StatusCode::OK, "{} {answer:?}", route.path),
        }
        is_careful(&answer);
    }
    let page = ask(&app, Method::GET, "/queues", &[("authorization", LOOKER)], "").await;
    assert!(!page.body.contains("method=\"post\""), "no button that would be refused is shown");
}

#[tokio::test]
async fn one_who_acts_is_let_through_to_every_route() {
    let app = guarded(tokens());
    for route in ROUTES {
        let answer = visit(&app, route, &[("authorization", ACTOR)]).await;
        let gates = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED];
        assert!(!gates.contains(&answer.status), "{} {answer:?}", route.path);
        assert!(answer.status != StatusCode::INTERNAL_SERVER_ERROR, "{} {answer:?}", route.path);
        is_careful(&answer);
    }
}

#[tokio::test]
async fn nothing_is_changed_by_another_method_than_post() {
    let app = guarded(tokens());
    let acts: Vec<_> = ROUTES.iter().filter(|route| route.access == Access::Act).collect();
    assert!(acts.len() >= 8);
    for route in acts {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let headers = [("authorization", ACTOR), ("x-http-method-override", "POST")];
            let answer = ask(&app, method.clone(), &path(route), &headers, "_method=POST").await;
            // A path such as /jobs/change is also one of a job that does not exist.
            let is_refused = [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_FOUND].contains(&answer.status);
            assert!(is_refused, "{method} {}: {answer:?}", route.path);
        }
    }
}

#[tokio::test]
async fn a_page_of_somebody_else_can_make_no_browser_act() {
    let app = guarded(Auth::None);
    let refused: [&[(&str, &str)]; 8] = [
        &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
        &[("sec-fetch-site", "same-site"), ("origin", "http://sub.localhost")],
        &[("sec-fetch-site", "none")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://localhost.evil.example")],
        &[("content-type", "text/plain")],
        &[],
    ];
    let allowed: [&[(&str, &str)]; 3] = [
        &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost")],
        &[("origin", "http://localhost")],
        &[("content-type", "application/json")],
    ];
    for route in ROUTES.iter().filter(|route| route.access == Access::Act) {
        for headers in refused {
            let answer = visit(&app, route, headers).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {headers:?}", route.path);
        }
        for headers in allowed {
            let answer = visit(&app, route, headers).await;
            assert_ne!(answer.status, StatusCode::FORBIDDEN, "{} {headers:?} {answer:?}", route.path);
        }
    }
}

#[tokio::test]
async fn a_trusted_origin_acts_through_a_proxy_that_changes_the_host() {
    let options = Options { trusted_origins: vec!["https://jobs.example.com".into()], ..Options::default() };
    let app = router(Watched::new(), options);
    let ours = [("origin", "https://jobs.example.com"), ("sec-fetch-site", "cross-site")];
    let other = [("origin", "https://jobs.example.com.evil"), ("sec-fetch-site", "cross-site")];
    let act = |headers| ask(&app, Method::POST, "/queue/pause?name=mail", headers, "");
    assert_eq!(act(&ours).await.status, StatusCode::SEE_OTHER);
    assert_eq!(act(&other).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn without_authentication_only_the_names_of_this_machine_are_answered() {
    let app = guarded(Auth::None);
    for host in ["localhost", "localhost:7420", "127.0.0.1", "[::1]:7420"] {
        assert_eq!(ask(&app, Method::GET, "/", &[("host", host)], "").await.status, StatusCode::OK, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
        assert_eq!(ask(&app, Method::GET, "/", &[("host", host)], "").await.status, StatusCode::FORBIDDEN, "{host}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_goes_around_the_guard() {
    let app = guarded(tokens());
    let paths = [
        "//",
        "//queues",
        "/queues/",
        "/%2e%2e/queues",
        "/assets/../queues",
        "/assets/%2e%2e%2fqueues",
        "/assets/style.css%00",
        "/assets/..%5c..%5cCargo.toml",
        "/QUEUES",
        "/health/",
        "/health/../queues",
        "/ready%2f..%2fqueues",
        "/api//queues",
        "/api/./queues",
        "/assets//etc/passwd",
        "/;/queues",
        "/health;/queues",
    ];
    for path in paths {
        let answer = ask(&app, Method::GET, path, &[], "").await;
        let is_refused = [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND].contains(&answer.status);
        assert!(is_refused && !answer.body.contains("mail"), "{path}: {answer:?}");
        is_careful(&answer);
        let answer = ask(&app, Method::GET, path, &[("authorization", ACTOR)], "").await;
        assert!(!answer.body.contains("root:") && !answer.body.contains("[package]"), "{path}");
    }
}

#[tokio::test]
async fn probes_answer_anybody_and_tell_nothing() {
    let app = guarded(tokens());
    for path in ["/health", "/ready"] {
        let answer = ask(&app, Method::GET, path, &[("host", "10.0.0.1")], "").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.body.contains("mail"));
    }
}

fn users() -> Auth {
    let hash =
        |password: &[u8]| Argon2::default().hash_password_with_salt(password, b"salt for a test").unwrap().to_string();
    let user = |name: &str, password: &[u8], role| User { name: name.into(), hash: Secret::new(hash(password)), role };
    Auth::Basic(vec![user("ann", b"right", Role::Act), user("bob", b"also right", Role::View)])
}

fn basic(name: &str, password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}")))
}

/// SE-10: behind a proxy all come from one address.
#[tokio::test]
async fn a_guesser_is_slowed_down_and_locks_nobody_else_out() {
    let app = guarded(users());
    let come = async |name: &str, password: &str| {
        ask(&app, Method::GET, "/", &[("authorization", &basic(name, password))], "").await.status
    };
    assert_eq!(come("ann", "right").await, StatusCode::OK);
    for _ in 0..20 {
        assert_eq!(come("ann", "wrong").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(come("ann", "wrong").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(come("ann", "right").await, StatusCode::OK, "who was here before is still let in");
    assert_eq!(come("bob", "also right").await, StatusCode::OK, "and so are others");
}

#[tokio::test]
async fn a_name_set_by_a_proxy_is_believed_from_the_proxy_only() {
    let proxy: IpAddr = "10.0.0.9".parse().unwrap();
    let auth = Auth::Forward { header: "x-user".into(), proxies: vec![proxy], actors: Some(vec!["ann".into()]) };
    let come = async |peer: Option<&str>, headers: &[(&str, &str)]| {
        let app = guarded(auth.clone());
        let app = match peer {
            Some(peer) => app.layer(axum::Extension(Peer(peer.parse().unwrap()))),
            None => app,
        };
        get_with(&app, headers).await
    };
    let named = [("x-user", "ann")];
    assert_eq!(come(Some("10.0.0.9"), &named).await, StatusCode::OK);
    assert_eq!(come(Some("::ffff:10.0.0.9"), &named).await, StatusCode::OK, "the same address, as IPv6 writes it");
    assert_eq!(come(Some("10.0.0.8"), &named).await, StatusCode::UNAUTHORIZED);
    assert_eq!(come(None, &named).await, StatusCode::UNAUTHORIZED);
    assert_eq!(come(Some("10.0.0.9"), &[("x-user", "ann"), ("x-user", "bob")]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(come(Some("10.0.0.9"), &[("x-user", "")]).await, StatusCode::UNAUTHORIZED);
}

async fn get_with(app: &Router, headers: &[(&str, &str)]) -> StatusCode {
    ask(app, Method::GET, "/", headers, "").await.status
}

#[tokio::test]
async fn a_refusal_suits_who_asked() {
    let app = guarded(Auth::None);
    let page = get(&app, "/nowhere").await;
    assert!(page.header("content-type").starts_with("text/html") && page.body.contains("To the overview"), "{page:?}");
    let object = ask(&app, Method::GET, "/api/jobs/x", &[], "").await;
    assert_eq!(object.header("content-type"), "application/json");
    assert!(serde_json::from_str::<serde_json::Value>(&object.body).unwrap()["error"].is_string());
    let line = ask(&app, Method::GET, "/nowhere", &[], "").await;
    assert!(line.header("content-type").starts_with("text/plain"), "{line:?}");
    for answer in [page, object, line] {
        is_careful(&answer);
    }
}
