//! Sidekiq's API and page read what is ours.

use serde_json::json;
use tokio::sync::mpsc;
use windlass::job::Payload;
use windlass::store::{LEASE_MIN, MemberId, MemberInfo};
use windlass::{Context, HandlerError, Handlers};

use crate::{PATIENCE, Scene, heard};

const PROCESS: &str = r#"
process = Sidekiq::ProcessSet.new.first
process && [Sidekiq::ProcessSet.new.size, process["concurrency"], process["queues"], process["busy"], process["tag"],
            process["quiet"], process["pid"], process["rss"].to_i > 0, process["identity"],
            (Time.now.to_f - process["beat"].to_f).abs < 60]
"#;

const WORK: &str = r#"
Sidekiq::Workers.new.map do |process, unit, work|
  job = Sidekiq::JobRecord.new(work["payload"])
  [process, unit.empty?, work["queue"], job.klass, job.args, (Time.now.to_i - work["run_at"]).abs < 600]
end
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_and_its_work_are_shown_until_it_stops() {
    let Some(scene) = Scene::set_up() else { return };
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |_: Payload, ctx: Context| {
        let tell = tell.clone();
        async move {
            let _ = tell.send(());
            ctx.cancelled().await;
        }
    };
    let server = scene.start(Handlers::new().raw("Wait", handler)).await;
    let id = scene.client.raw("Wait", r#"["for",{"it":1}]"#).await.unwrap();
    heard(&mut told).await;
    let member = server.member().to_string();

    let shown = json!([1, 7, ["default"], 1, "windlass", "false", std::process::id(), true, member, true]);
    scene.until(PROCESS, &shown);
    let work = scene.ask(WORK);
    assert_eq!(work, json!([[member, false, "default", "Wait", ["for", { "it": 1 }], true]]));

    let web = scene.ruby.web().unwrap();
    let page = web.browser().get("/busy").unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains(&member) && page.body.contains("Wait"), "{}", page.body);

    scene.client.cancel(id).await.unwrap();
    assert!(server.stop().await.is_clean);
    assert_eq!(scene.ask(PROCESS), json!(null));
    assert_eq!(scene.cli(&["KEYS", &format!("{member}*")]).texts(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_process_is_shown_until_somebody_reaps_it() {
    let Some(scene) = Scene::set_up() else { return };
    let member = MemberId::new("elsewhere", 1, 1);
    let info = MemberInfo {
        id: member.clone(),
        host: "elsewhere".to_owned(),
        pid: 1,
        queues: vec!["a".to_owned(), "b".to_owned()],
        weights: vec![2, 1],
        concurrency: 3,
        version: "0".to_owned(),
    };
    scene.store.join(info, LEASE_MIN).await.unwrap();
    let shown = "Sidekiq::ProcessSet.new(false).map { |process| [process.identity, process.queues] }";
    assert_eq!(scene.ask(shown), json!([[member.as_str(), ["a", "b"]]]));

    let reaping = async {
        while scene.store.reap(100).await.unwrap().members.is_empty() {
            tokio::time::sleep(LEASE_MIN / 20).await;
        }
    };
    tokio::time::timeout(PATIENCE, reaping).await.expect("its lease runs out");

    assert_eq!(scene.ask(shown), json!([]));
    assert_eq!(scene.cli(&["EXISTS", member.as_str()]).integer(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_our_jobs_without_an_error() {
    async fn fail(_: Payload, _: Context) -> Result<(), HandlerError> {
        Err(HandlerError::msg("a <bad> day"))
    }
    let Some(scene) = Scene::set_up() else { return };
    let once = windlass::JobOptions::new().attempts(1);
    scene.client.raw("Fails", r#"["retried"]"#).await.unwrap();
    scene.client.with(once).raw("Fails", r#"["buried"]"#).await.unwrap();
    scene.client.with(windlass::JobOptions::new().queue("other")).raw("Waits", r#"[{"in":"a queue"}]"#).await.unwrap();
    let later = scene.store.now() + std::time::Duration::from_secs(600);
    scene.client.with(windlass::JobOptions::new()).raw_at(later, "Later", "[1]").await.unwrap();
    let server = scene.start(Handlers::new().raw("Fails", fail)).await;
    scene.until_number(&["ZCARD", "retry"], 1);
    scene.until_number(&["ZCARD", "dead"], 1);
    assert!(server.stop().await.is_clean);
    let web = scene.ruby.web().unwrap();
    let mut browser = web.browser();

    for (path, text) in [
        ("/", "Failed"),
        ("/busy", "Processes"),
        ("/queues", "other"),
        ("/queues/other", "Waits"),
        ("/retries", "a &lt;bad&gt; day"),
        ("/scheduled", "Later"),
        ("/morgue", "buried"),
    ] {
        let page = browser.get(path).unwrap();
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(page.body.contains(text), "{path}: {}", page.body);
    }
    for (list, set) in [("retries", "RetrySet"), ("morgue", "DeadSet"), ("scheduled", "ScheduledSet")] {
        let key = scene.ask(&format!("job = Sidekiq::{set}.new.first; \"#{{job.score}}-#{{job.jid}}\""));
        let page = browser.get(&format!("/{list}/{}", key.as_str().unwrap())).unwrap();
        assert_eq!(page.status, 200, "{list}: {}", page.body);
    }
    let history =
        scene.ask("history = Sidekiq::Stats::History.new(1); [history.processed.values, history.failed.values]");
    assert_eq!(history, json!([[2], [2]]));
}
