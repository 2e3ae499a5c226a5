//! The real Sidekiq, as the tests of windlass find it.

use windlass_testbed::ruby::{Ruby, WorkOptions};
use windlass_testbed::wait::{self, until};
use windlass_testbed::{RedisServer, redis};

/// A worker that leaves what it was given where Redis can be asked for it.
const WORKERS: &str = r##"
class Note
  include Sidekiq::Worker
  def perform(text, number) = Sidekiq.redis { |redis| redis.rpush("notes", "#{text} #{number}") }
end
class Fail
  include Sidekiq::Worker
  sidekiq_options retry: 3
  def perform(text) = raise(ArgumentError, "not #{text}")
end
"##;

const PUSH: &str = r#"
Sidekiq::Client.push("class" => "Note", "args" => ["a", 1])
Sidekiq::Client.push("class" => "Fail", "args" => ["today"], "retry" => 3)
"#;

fn set_up() -> Option<(RedisServer, Ruby)> {
    if !Ruby::is_installed() {
        redis::skip("sidekiq is not installed");
        return None;
    }
    let server = RedisServer::start().unwrap();
    let ruby = Ruby::at(&server.url()).unwrap();
    Some((server, ruby))
}

#[test]
fn a_snippet_answers_its_value_and_says_what_it_raised() {
    let Some((server, ruby)) = set_up() else { return };

    ruby.ask(PUSH).unwrap();
    let queue = ruby.ask("Sidekiq::Queue.new.map { |job| [job.klass, job.args] }").unwrap();
    let error = ruby.ask("raise 'no such thing'").unwrap_err();

    assert_eq!(queue, serde_json::json!([["Fail", ["today"]], ["Note", ["a", 1]]]));
    assert_eq!(server.cli(&["LLEN", "queue:default"]).unwrap().integer(), Some(2));
    assert!(format!("{error:#}").contains("no such thing"), "{error:#}");
    assert!(ruby.version().unwrap().starts_with(char::is_numeric));
}

#[test]
fn a_worker_works_shows_itself_and_ends_when_asked() {
    let Some((server, ruby)) = set_up() else { return };
    let mut worker = ruby.work(WORKERS, &WorkOptions::default()).unwrap();

    ruby.ask(PUSH).unwrap();

    let notes = until("the job's note", wait::LIMIT, || {
        let notes = server.cli(&["LRANGE", "notes", "0", "-1"])?.texts();
        Ok((!notes.is_empty()).then_some(notes))
    });
    assert_eq!(notes.unwrap(), ["a 1"]);
    until("the failed job among the retries", wait::LIMIT, || {
        Ok((server.cli(&["ZCARD", "retry"])?.integer() == Some(1)).then_some(()))
    })
    .unwrap();
    let retries = ruby.ask("Sidekiq::RetrySet.new.map { |job| [job.klass, job[\"error_message\"]] }").unwrap();
    assert_eq!(retries, serde_json::json!([["Fail", "not today"]]));
    worker.terminate().unwrap();
    assert!(worker.has_ended().unwrap());
    assert_eq!(ruby.ask("Sidekiq::ProcessSet.new.size").unwrap(), 0);
}

#[test]
fn the_page_shows_its_tabs_and_its_buttons_work() {
    let Some((server, ruby)) = set_up() else { return };
    ruby.ask(PUSH).unwrap();
    let web = ruby.web().unwrap();
    let mut browser = web.browser();

    for path in ["/", "/busy", "/queues", "/queues/default", "/retries", "/scheduled", "/morgue"] {
        assert_eq!(browser.get(path).unwrap().status, 200, "{path}");
    }
    let page = browser.get("/queues/default").unwrap();
    assert!(page.body.contains("Note"), "{}", page.body);
    let token = page.input("authenticity_token").unwrap().to_owned();
    let pressed = browser.post("/queues/default", &[("authenticity_token", &token), ("delete", "1")]).unwrap();

    assert_eq!(pressed.status, 302, "{}", pressed.body);
    assert_eq!(server.cli(&["EXISTS", "queue:default"]).unwrap().integer(), Some(0));
}

#[test]
fn a_worker_that_cannot_start_says_why() {
    let Some((_server, ruby)) = set_up() else { return };

    let error = ruby.work("raise 'a bad file'", &WorkOptions::default()).unwrap_err();

    assert!(format!("{error:#}").contains("a bad file"), "{error:#}");
}
