//! Below another program's path, every link leads to a page, with a slash at the end or without.

use std::collections::BTreeSet;

use axum::Router;
use axum::http::{Method, StatusCode};
use scraper::{Html, Selector};
use windlass_web::{Options, router};

use super::support::{Watched, ask, get};

fn mounted() -> Router {
    Router::new().nest("/admin/jobs", router(Watched::saying("mail"), Options::default()))
}

fn addresses(page: &str) -> Vec<String> {
    let page = Html::parse_document(page);
    let mut found = Vec::new();
    for (selector, attribute) in [("a[href]", "href"), ("link[href]", "href"), ("script[src]", "src")] {
        let elements = page.select(&Selector::parse(selector).unwrap());
        found.extend(elements.map(|element| element.value().attr(attribute).unwrap().to_owned()));
    }
    let forms = page.select(&Selector::parse("form[action]").unwrap());
    found
        .extend(forms.filter(|form| form.attr("method").is_none()).map(|form| form.attr("action").unwrap().to_owned()));
    found
}

#[tokio::test]
async fn every_link_of_a_mounted_dashboard_leads_somewhere() {
    let app = mounted();
    let (mut seen, mut left) = (BTreeSet::new(), vec!["/admin/jobs".to_owned()]);
    while let Some(address) = left.pop() {
        if !seen.insert(address.clone()) {
            continue;
        }
        let answer = get(&app, &address).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}");
        let path = address.split('?').next().unwrap().to_owned();
        for link in addresses(&answer.body).into_iter().filter(|link| link != "data:," && !link.starts_with('#')) {
            let link = if link.starts_with('?') { format!("{path}{link}") } else { link };
            assert!(link.starts_with("/admin/jobs"), "{address} links to {link}");
            left.push(link);
        }
    }
    assert!(seen.len() >= 15, "{seen:?}");
}

#[tokio::test]
async fn a_slash_at_the_end_of_the_mount_shows_the_way() {
    let answer = get(&mounted(), "/admin/jobs/").await;
    let is_the_page = answer.status == StatusCode::OK;
    assert!(is_the_page || answer.header("location") == "/admin/jobs", "{answer:?}");
}

#[tokio::test]
async fn a_change_leads_back_to_where_the_person_was_and_never_elsewhere() {
    let app = mounted();
    let change = async |referer: &str| {
        let headers = [("origin", "http://localhost"), ("referer", referer)];
        ask(&app, Method::POST, "/admin/jobs/queue/pause?name=mail", &headers, "").await.header("location").to_owned()
    };
    assert_eq!(change("http://localhost/admin/jobs/queue?name=mail&changed=3").await, "/admin/jobs/queue?name=mail");
    for elsewhere in
        ["http://evil.example/admin/jobs", "http://localhost/other", "http://localhost//evil.example", "nonsense", ""]
    {
        assert_eq!(change(elsewhere).await, "/admin/jobs/queues", "{elsewhere}");
    }
    let above = router(Watched::saying("mail"), Options::default());
    let headers = [("origin", "http://localhost"), ("referer", "http://localhost/\\evil.example")];
    let answer = ask(&above, Method::POST, "/queue/pause?name=mail", &headers, "").await;
    assert_eq!(answer.header("location"), "/queues");
}

#[tokio::test]
async fn a_grave_change_is_done_only_by_who_is_sure() {
    let own = [("origin", "http://localhost")];
    let app = mounted();
    let (path, asked) = ("/admin/jobs/queue/clear?name=mail", "sure=no");
    let question = ask(&app, Method::POST, path, &own, asked).await;
    assert_eq!(question.status, StatusCode::OK);
    assert!(question.body.contains("Are you sure?") && question.body.contains(path), "{question:?}");
    assert_eq!(ask(&app, Method::POST, path, &own, "sure=yes").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn the_navigation_tells_where_one_is() {
    let app = mounted();
    for (address, name) in [("", "Overview"), ("/queues", "Queues"), ("/jobs?state=dead", "Dead"), ("/kinds", "Kinds")]
    {
        let page = Html::parse_document(&get(&app, &format!("/admin/jobs{address}")).await.body);
        let here = page.select(&Selector::parse("nav a[aria-current=page]").unwrap()).map(|link| link.text().collect());
        let here: Vec<String> = here.collect();
        assert!(here.len() == 1 && here[0].starts_with(name), "{address}: {here:?}");
    }
}

#[tokio::test]
async fn a_theme_is_chosen_remembered_and_known_before_the_page_is_drawn() {
    let app = mounted();
    let chosen = get(&app, "/admin/jobs?theme=dark").await;
    assert!(chosen.header("set-cookie").starts_with("windlass-theme=dark; Path=/admin/jobs;"), "{chosen:?}");
    assert!(chosen.body.contains("data-theme=\"dark\""));
    let later = ask(&app, Method::GET, "/admin/jobs/queues", &[("cookie", "a=b; windlass-theme=light")], "").await;
    assert!(later.body.contains("data-theme=\"light\""));
    let nonsense = ask(&app, Method::GET, "/admin/jobs/queues", &[("cookie", "windlass-theme=\"><x>")], "").await;
    assert!(!nonsense.body.contains("data-theme=") && nonsense.status == StatusCode::OK);
}
