//! Text of jobs is hostile. After a real HTML parser has read a page, each text is there as it was, and nothing else has
//! come of it: the elements and attributes of the page are those that a harmless text gives.

use axum::http::{Method, StatusCode};
use scraper::{ElementRef, Html, Selector};
use windlass_web::{BODY_LEN_MAX, Options, router};

use super::support::{ID, Watched, ask, get};

/// Ways in that have been found elsewhere: tags, attributes, entities, comments, templates, schemes, encodings, control
/// characters and directions of writing.
const CORPUS: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<ScRiPt src=//evil.example></sCrIpT>",
    "<script/xss>alert(1)</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<img/src='x'/onerror=alert(1)>",
    "<img src=\"x\" onerror=\"alert(1)\"//",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=javascript:alert(1)>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href=\"java\tscript:alert(1)\">x</a>",
    "<form action=javascript:alert(1)><button>x</button></form>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{background:url(//evil.example)}</style>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</pre><script>alert(1)</script>",
    "</noscript><script>alert(1)</script>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "</select><script>alert(1)</script>",
    "</table><script>alert(1)</script>",
    "<template><script>alert(1)</script></template>",
    "<!--<img src=\"--><img src=x onerror=alert(1)>\">",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version=\"1.0\"?><script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "` onmouseover=`alert(1)",
    "x onmouseover=alert(1)",
    "\" autofocus onfocus=alert(1) x=\"",
    "\" style=\"background:url(//evil.example)",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//evil.example/x",
    "\\\\evil.example",
    "{{7*7}}",
    "{% raw %}${7*7}#{7*7}<%= 7*7 %>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#x3c;/script&#x3e;",
    "&amp;&amp;amp;&nbsp;&copy",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\u{feff}<script>alert(1)</script>",
    "<\u{0}script>alert(1)</script>",
    "\u{0}",
    "a\u{1}b\u{8}c\u{b}d\u{1b}[31me\u{7f}f",
    "\u{85}\u{2028}\u{2029}\u{a0}",
    "\u{202e}drawrof\u{202c} \u{2066}x\u{2069} \u{200f}",
    "\u{fffe}\u{ffff}\u{10ffff}",
    "\n\nleading lines",
    "\r\nleading\rreturns\r",
    "\ttabs\t and  spaces ",
    "..",
    "../../etc/passwd",
    "a/b?c=d&e=f#g",
    "😀 é \u{301}\u{301}\u{301}\u{301}",
    "1 changed=5&refused=1",
    "",
];

const HARMLESS: &str = "harmless";

/// What a page shows for a text: NUL cannot be in a page.
fn shown(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn pages(text: &str) -> Vec<String> {
    let text = encoded(text);
    vec![
        "/".into(),
        "/queues".into(),
        format!("/queue?name={text}"),
        "/jobs".into(),
        "/jobs?state=dead".into(),
        format!("/jobs?state=dead&queue={text}&kind={text}&q={text}"),
        format!("/jobs/{ID}"),
        "/busy".into(),
        "/processes".into(),
        "/kinds".into(),
        format!("/kind?name={text}"),
        format!("/jobs?state=x{text}"),
        format!("/jobs?after={text}"),
    ]
}

/// The elements of a page with the names of their attributes, without texts and values.
fn skeleton(page: &str) -> String {
    let element = |element: ElementRef<'_>| {
        let mut names: Vec<_> = element.value().attrs().map(|(name, _)| name.to_owned()).collect();
        names.sort();
        format!("{}/{} {}\n", element.ancestors().count(), element.value().name(), names.join(" "))
    };
    Html::parse_document(page).root_element().descendants().filter_map(ElementRef::wrap).map(element).collect()
}

fn texts(page: &Html, selector: &str) -> Vec<String> {
    page.select(&Selector::parse(selector).unwrap()).map(|element| element.text().collect()).collect()
}

fn values(page: &Html, selector: &str, attribute: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).map(|element| element.value().attr(attribute).unwrap().to_owned()).collect()
}

#[test]
fn the_corpus_is_large() {
    assert!(CORPUS.len() >= 60, "{}", CORPUS.len());
}

/// The control: were a text not escaped, the comparison below would see it.
#[test]
fn an_element_or_an_attribute_that_a_text_brings_is_noticed() {
    let page = |text: &str| format!("<!doctype html><table><tr><td title=\"{text}\">{text}</table>");
    let is_noticed = |text: &str| skeleton(&page(text)) != skeleton(&page(HARMLESS));
    assert!(is_noticed("<img src=x onerror=alert(1)>") && is_noticed("\" onmouseover=\"alert(1)"));
    let noticed = CORPUS.iter().filter(|text| is_noticed(text)).count();
    assert!(noticed >= 40, "only {noticed} are noticed");
}

#[tokio::test]
async fn nothing_but_text_comes_of_any_text_on_any_page() {
    let plain = router(Watched::saying(HARMLESS), Options::default());
    for text in CORPUS {
        let app = router(Watched::saying(text), Options::default());
        for (path, harmless) in pages(text).iter().zip(pages(HARMLESS)) {
            let (page, model) = (get(&app, path).await, get(&plain, &harmless).await);
            // A filter that is empty or too long is another page.
            if page.status == model.status && !text.is_empty() {
                assert_eq!(skeleton(&page.body), skeleton(&model.body), "{text:?} changes the elements of {path}");
            }
            assert_ne!(page.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}: {page:?}");
            let scripts = values(&Html::parse_document(&page.body), "script", "src");
            assert!(scripts.iter().all(|source| source == "/assets/app.js"), "{path}: {scripts:?}");
        }
    }
}

#[tokio::test]
async fn every_text_is_on_its_page_as_it_was() {
    for text in CORPUS {
        let app = router(Watched::saying(text), Options::default());
        let job = Html::parse_document(&get(&app, &format!("/jobs/{ID}")).await.body);
        // Arguments, result, message and backtrace: line by line, with every return and tab.
        assert_eq!(texts(&job, "pre.data"), vec![shown(text); 4], "{text:?}");
        assert_eq!(texts(&job, "b.mono"), [shown(text)], "the class of the error {text:?}");
        let queues = Html::parse_document(&get(&app, "/queues").await.body);
        assert_eq!(values(&queues, "tr[data-queue]", "data-queue"), [shown(text)]);
        assert_eq!(texts(&queues, "#queues tbody td:first-child a"), [shown(text)]);
        let processes = Html::parse_document(&get(&app, "/processes").await.body);
        assert_eq!(values(&processes, "tr[data-process]", "data-process"), [shown(text)]);
        let kinds = Html::parse_document(&get(&app, "/kinds").await.body);
        assert_eq!(texts(&kinds, "#kinds tbody td:first-child"), [shown(text)]);
        let kind = Html::parse_document(&get(&app, &format!("/kind?name={}", encoded(text))).await.body);
        assert_eq!(texts(&kind, "h1"), [shown(text)]);
        let listing = get(&app, &format!("/jobs?q={}", encoded(text))).await;
        if listing.status == StatusCode::OK {
            let listing = Html::parse_document(&listing.body);
            assert_eq!(values(&listing, "form.filter input[name=q]", "value"), [shown(text)]);
        }
    }
}

/// A link or a form that is made of a text leads where it should, and nowhere else.
#[tokio::test]
async fn every_name_comes_back_whole_from_its_link() {
    for text in CORPUS {
        let app = router(Watched::saying(text), Options::default());
        let page = Html::parse_document(&get(&app, "/queues").await.body);
        let link = values(&page, "#queues tbody a", "href").remove(0);
        let forms = values(&page, "#queues tbody form", "action");
        for address in std::iter::once(&link).chain(&forms) {
            let (path, query) = address.split_once('?').unwrap();
            assert!(["/queue", "/queue/pause", "/queue/clear"].contains(&path), "{address}");
            let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            assert_eq!(fields, [("name".to_owned(), (*text).to_owned())]);
        }
        assert_eq!(get(&app, &link).await.status, StatusCode::OK, "{link}");
    }
}

#[tokio::test]
async fn the_question_before_a_change_repeats_the_request_and_nothing_else() {
    let plain = router(Watched::saying(HARMLESS), Options::default());
    let own = [("origin", "http://localhost"), ("accept", "text/html")];
    let form = |text: &str| format!("all=delete&state=dead&q={0}&{0}={0}&back={0}", encoded(text));
    let model = ask(&plain, Method::POST, "/jobs/change", &own, &form(HARMLESS)).await;
    assert_eq!(model.status, StatusCode::OK, "{model:?}");
    for text in CORPUS.iter().filter(|text| !text.is_empty()) {
        let app = router(Watched::saying(text), Options::default());
        let page = ask(&app, Method::POST, "/jobs/change", &own, &form(text)).await;
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(skeleton(&page.body), skeleton(&model.body), "{text:?}");
        let page = Html::parse_document(&page.body);
        assert_eq!(values(&page, "main form", "action"), ["/jobs/change"]);
        assert_eq!(values(&page, "main form input[name=q]", "value"), [shown(text)]);
        let way_back = values(&page, "main form a", "href").remove(0);
        assert!(way_back.starts_with('/') && !way_back.starts_with("//"), "{way_back}");
    }
}

#[tokio::test]
async fn the_api_gives_every_text_back_as_it_was() {
    for text in CORPUS {
        let app = router(Watched::saying(text), Options::default());
        let answer = get(&app, &format!("/api/jobs/{ID}")).await;
        assert_eq!(answer.header("content-type"), "application/json");
        let job: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(job["error"]["message"], **text);
        assert_eq!(job["reason"], **text);
    }
}

#[tokio::test]
async fn what_is_too_much_is_refused_with_a_reason() {
    let app = router(Watched::new(), Options::default());
    let post = async |body: String| {
        ask(&app, Method::POST, "/api/jobs/change", &[("content-type", "application/json")], &body).await.status
    };
    let deep = format!("{{\"verb\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let ids = |count: usize| vec![format!("{:?}", ID.to_string()); count].join(",");
    assert_eq!(post("x".repeat(BODY_LEN_MAX + 1)).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(post(deep).await.is_client_error());
    assert!(post("{\"verb\":\"kill\",\"all\":{\"limit\":1e999999}}".into()).await.is_client_error());
    assert!(post(format!("{{\"verb\":\"kill\",\"ids\":[{}]}}", ids(1_001))).await.is_client_error());
    assert!(post("{\"verb\":\"kill\",\"ids\":[]}".into()).await.is_client_error());
    assert!(post("{\"verb\":\"kill\",\"all\":{}}".into()).await.is_client_error(), "all of nothing in particular");
    assert!(post("{\"verb\":\"kill\"}".into()).await.is_client_error());
    assert!(post("{\"verb\":\"kill\",\"ids\":[\"x\"],\"other\":1}".into()).await.is_client_error());
}

#[tokio::test]
async fn parameters_out_of_range_are_refused_or_bounded() {
    let app = router(Watched::new(), Options::default());
    let cases = [
        ("/api/history?days=0", StatusCode::BAD_REQUEST),
        ("/api/history?days=91", StatusCode::BAD_REQUEST),
        ("/api/history?days=99999999999999999999", StatusCode::BAD_REQUEST),
        ("/api/series?span=century", StatusCode::BAD_REQUEST),
        ("/api/jobs?limit=4000000000", StatusCode::OK),
        ("/api/jobs?limit=0", StatusCode::OK),
        ("/api/jobs?limit=-1", StatusCode::BAD_REQUEST),
        ("/api/jobs?after=1", StatusCode::BAD_REQUEST),
        ("/jobs?state=nowhere", StatusCode::BAD_REQUEST),
        ("/queue", StatusCode::BAD_REQUEST),
        ("/queue?name=empty", StatusCode::OK),
        ("/queue?name=no%20name", StatusCode::BAD_REQUEST),
        ("/jobs/not-an-id", StatusCode::NOT_FOUND),
    ];
    for (path, status) in cases {
        assert_eq!(get(&app, path).await.status, status, "{path}");
    }
    let long = "x".repeat(10_000);
    assert_eq!(get(&app, &format!("/jobs?q={long}")).await.status, StatusCode::BAD_REQUEST);
    let many = "state=dead&".repeat(3_000);
    assert_eq!(get(&app, &format!("/jobs?{many}")).await.status, StatusCode::BAD_REQUEST);
}
