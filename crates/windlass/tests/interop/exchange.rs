//! Jobs go from one to the other, and come back whole.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{Context, HandlerError, Handlers, Job, State};
use windlass_testbed::ruby::WorkOptions;
use windlass_testbed::wait;

use crate::{PATIENCE, Scene, heard};

/// What a Ruby class with `def perform(text, number)` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "Billing::Note")]
struct Note(String, u32);

type Told = mpsc::UnboundedSender<(Note, String)>;

const RUBY: &str = r##"
module Billing; end
class Billing::Note
  include Sidekiq::Worker
  def perform(text, number) = Sidekiq.redis { |redis| redis.rpush("notes", "#{text} #{number}") }
end
class Fail
  include Sidekiq::Worker
  def perform(*) = raise(ArgumentError, "Ruby cannot")
end
"##;

async fn tell(note: Note, ctx: Context, told: State<Told>) {
    let _ = told.send((note, format!("{} {}", ctx.queue(), ctx.attempt())));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ruby_pushes_windlass_works_with_its_arguments_in_their_positions() {
    let Some(scene) = Scene::set_up() else { return };
    let (tell_it, mut told) = mpsc::unbounded_channel();
    let server = scene.start(Handlers::new().on(tell).state::<Told>(tell_it)).await;

    scene.ask(
        r#"
        Sidekiq::Client.push("class" => "Billing::Note", "args" => ["now", 1])
        Sidekiq::Client.push("class" => "Billing::Note", "args" => ["later", 2], "at" => Time.now.to_f + 0.2)
        Sidekiq::Client.push("class" => "Billing::Note", "args" => ["named", 3], "jid" => "a name of its own")
        Sidekiq::Client.push_bulk("class" => "Billing::Note", "args" => [["many", 4], ["many", 5]])
        "#,
    );

    let mut notes = Vec::new();
    for _ in 0..5 {
        let (Note(text, number), ran) = heard(&mut told).await;
        assert_eq!(ran, "default 1");
        notes.push((number, text));
    }
    notes.sort();
    let texts: Vec<&str> = notes.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["now", "later", "named", "many", "many"]);
    assert!(server.stop().await.is_clean);
    let stats = scene.ask("stats = Sidekiq::Stats.new; [stats.processed, stats.failed, stats.enqueued]");
    assert_eq!(stats, json!([5, 0, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_windlass_pushes_ruby_works() {
    let Some(scene) = Scene::set_up() else { return };
    let later = std::time::Duration::from_secs(3_600);

    scene.client.enqueue(&Note("typed".to_owned(), 1)).await.unwrap();
    scene.client.raw("Billing::Note", r#"["raw",2]"#).await.unwrap();
    scene.client.enqueue_in(later, &Note("scheduled".to_owned(), 3)).await.unwrap();
    let due_in = scene.ask("Sidekiq::ScheduledSet.new.map { |job| [job.args, (job.at - Time.now).round(-2)] }");
    assert_eq!(due_in, json!([[["scheduled", 3], 3_600]]));
    scene.ask("Sidekiq::ScheduledSet.new.each(&:add_to_queue); nil");
    let mut worker = scene.ruby.work(RUBY, &WorkOptions::default()).unwrap();

    scene.until_number(&["LLEN", "notes"], 3);
    let mut notes = scene.cli(&["LRANGE", "notes", "0", "-1"]).texts();
    notes.sort();
    assert_eq!(notes, ["raw 2", "scheduled 3", "typed 1"]);
    worker.terminate().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_here_is_a_retry_there_with_every_field_it_had() {
    async fn fail(_: windlass::job::Payload, _: Context) -> Result<(), HandlerError> {
        Err(HandlerError::msg("windlass cannot"))
    }
    let Some(scene) = Scene::set_up() else { return };
    let server = scene.start(Handlers::new().raw("Fail", fail)).await;

    scene.ask(
        r#"Sidekiq::Client.push("class" => "Fail", "args" => [1.50, 123456789012345678901], "jid" => "0123456789abcdef01234567",
                                "retry" => 4, "tags" => ["x"], "custom" => { "a" => [1.0e5, nil] }, "backtrace" => 2)"#,
    );
    scene.until_number(&["ZCARD", "retry"], 1);

    let job = scene.ask(
        r#"job = Sidekiq::RetrySet.new.first
           [job.jid, job.args, job["retry"], job["tags"], job["custom"], job["backtrace"], job["retry_count"],
            job["error_message"], job["failed_at"].class.name, (Time.now - job.created_at).abs < 600, job.at > Time.now]"#,
    );
    assert_eq!(
        job,
        json!([
            "0123456789abcdef01234567",
            [1.5, serde_json::from_str::<serde_json::Value>("123456789012345678901").unwrap()],
            4,
            ["x"],
            { "a": [1.0e5, null] },
            2,
            0,
            "windlass cannot",
            "Float",
            true,
            true
        ])
    );
    let stats = scene.ask("stats = Sidekiq::Stats.new; [stats.processed, stats.failed, stats.retry_size]");
    assert_eq!(stats, json!([1, 1, 1]));
    assert!(server.stop().await.is_clean);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_there_is_the_second_attempt_here() {
    let Some(scene) = Scene::set_up() else { return };
    let mut worker = scene.ruby.work(RUBY, &WorkOptions::default()).unwrap();
    scene.client.raw("Fail", r#"["a",1]"#).await.unwrap();
    scene.until_number(&["ZCARD", "retry"], 1);
    worker.terminate().unwrap();

    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |args: windlass::job::Payload, ctx: Context| {
        let _ = tell.send((args.to_text(), ctx.attempt()));
        async {}
    };
    let server = scene.start(Handlers::new().raw("Fail", handler)).await;
    let member = scene.cli(&["ZRANGE", "retry", "0", "0"]).texts().remove(0);
    scene.cli(&["ZADD", "retry", "1", &member]);

    assert_eq!(heard(&mut told).await, (r#"["a",1]"#.to_owned(), 2));
    assert!(server.stop().await.is_clean);
    assert_eq!(scene.ask("[Sidekiq::RetrySet.new.size, Sidekiq::Queue.new.size]"), json!([0, 0]));
}

/// Ruby that promotes at once and goes on doing so.
const EAGER: &str = r##"
Sidekiq.configure_server do |config|
  config.options[:poll_interval_average] = 0.05
  config.options[:scheduled_poll_interval] = 0.05
end
class Count
  include Sidekiq::Worker
  def perform(number) = Sidekiq.redis { |redis| redis.rpush("counted", number) }
end
"##;

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_both_promote_and_both_work_run_once_each() {
    const COUNT: i64 = 400;
    let Some(scene) = Scene::set_up() else { return };
    let mut worker = scene.ruby.work(EAGER, &WorkOptions::default()).unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |args: windlass::job::Payload, _: Context| {
        let _ = tell.send(args.to_text());
        async {}
    };
    let server = scene.start(Handlers::new().raw("Count", handler)).await;
    // Ruby begins to promote within five seconds: the jobs fall due until well after that.
    let now = scene.store.now();
    for number in 0..COUNT {
        let at = now + std::time::Duration::from_millis(20 * number as u64);
        scene.client.with(windlass::JobOptions::new()).raw_at(at, "Count", &format!("[{number}]")).await.unwrap();
    }

    let mut here = Vec::new();
    let all_have_run = wait::until_true("all jobs have run", PATIENCE, || {
        here.extend(std::iter::from_fn(|| told.try_recv().ok()));
        scene.cli(&["LLEN", "counted"]).integer().unwrap() + here.len() as i64 >= COUNT
    });
    all_have_run.unwrap();
    worker.terminate().unwrap();
    assert!(server.stop().await.is_clean);
    here.extend(std::iter::from_fn(|| told.try_recv().ok()));
    let there = scene.cli(&["LRANGE", "counted", "0", "-1"]).texts();
    let mut numbers: Vec<i64> = here.iter().map(|args| args.trim_matches(['[', ']']).parse().unwrap()).collect();
    numbers.extend(there.iter().map(|number| number.parse::<i64>().unwrap()));
    numbers.sort_unstable();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
}
