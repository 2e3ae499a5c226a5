//! Sidekiq's API acts on what is ours.

use serde_json::json;
use windlass::state::State as JobState;
use windlass::{Handlers, JobOptions};

use crate::{PATIENCE, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn a_process_grows_quiet_and_stops_when_ruby_says_so() {
    let Some(scene) = Scene::set_up() else { return };
    let server = scene.start(Handlers::new()).await;
    let quiet = r#"process = Sidekiq::ProcessSet.new.first; process && process["quiet"]"#;
    scene.until(quiet, &json!("false"));

    scene.ask("Sidekiq::ProcessSet.new.each(&:quiet!); nil");
    scene.until(quiet, &json!("true"));
    scene.ask("Sidekiq::ProcessSet.new.each(&:stop!); nil");

    tokio::time::timeout(PATIENCE, server.stop_asked()).await.expect("it heard of it");
    assert!(server.stop().await.is_clean);
    assert_eq!(scene.ask("Sidekiq::ProcessSet.new.size"), json!(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_retried_killed_and_deleted_by_ruby() {
    let Some(scene) = Scene::set_up() else { return };
    let later = scene.store.now() + std::time::Duration::from_secs(600);
    let plain = || scene.client.with(JobOptions::new());
    let ready = plain().raw("A", "[1]").await.unwrap();
    let deleted = plain().raw("A", "[2]").await.unwrap();
    let hurried = plain().raw_at(later, "A", "[3]").await.unwrap();
    let killed = plain().raw_at(later, "A", "[4]").await.unwrap();
    let revived = plain().raw("A", "[5]").await.unwrap();
    scene.client.kill(revived).await.unwrap();

    scene.ask(&format!(
        r#"Sidekiq::Queue.new.find_job("{deleted}").delete
           Sidekiq::ScheduledSet.new.find_job("{hurried}").add_to_queue
           Sidekiq::ScheduledSet.new.find_job("{killed}").kill
           Sidekiq::DeadSet.new.find_job("{revived}").retry
           nil"#
    ));

    let state = async |id| scene.store.get(id).await.unwrap().map(|job| job.state);
    assert_eq!(state(ready).await, Some(JobState::Ready));
    assert_eq!(state(deleted).await, None);
    assert_eq!(state(hurried).await, Some(JobState::Ready));
    assert_eq!(state(killed).await, Some(JobState::Dead));
    assert_eq!(state(revived).await, Some(JobState::Ready));
    let counts = scene.store.counts().await.unwrap();
    assert_eq!((counts.ready, counts.scheduled, counts.dead), (3, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ruby_puts_off_is_there_once() {
    let Some(scene) = Scene::set_up() else { return };
    let later = scene.store.now() + std::time::Duration::from_secs(600);
    let args = r#"["ž \" / \\ \n",{"a":[1,2.5,null,true]},-7]"#;
    let once = JobOptions::new().queue("slow").timeout(std::time::Duration::from_secs(3));
    let id = scene.client.with(once).raw_at(later, "A", args).await.unwrap();

    // Ruby finds the member by writing the job's JSON anew: a byte of difference, and there would be two.
    let at = scene.ask(&format!(
        r#"at = Time.now.to_i + 5000
           Sidekiq::ScheduledSet.new.find_job("{id}").reschedule(at)
           at"#
    ));

    assert_eq!(scene.cli(&["ZCARD", "schedule"]).integer(), Some(1));
    let job = scene.store.get(id).await.unwrap().unwrap();
    assert_eq!((job.state, job.run_at.as_millis() / 1_000), (JobState::Scheduled, at.as_i64().unwrap()));
    assert_eq!(job.payload.to_text(), args);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_seen_there_and_a_cleared_queue_is_empty_here() {
    let Some(scene) = Scene::set_up() else { return };
    scene.client.raw("A", "[1]").await.unwrap();

    scene.client.pause("default").await.unwrap();
    assert_eq!(scene.ask("Sidekiq.redis { |redis| redis.smembers('paused') }"), json!(["default"]));
    scene.client.resume("default").await.unwrap();
    scene.cli(&["SADD", "paused", "default"]);
    assert!(scene.store.queues().await.unwrap().iter().any(|queue| queue.name == "default" && queue.paused));
    scene.ask("Sidekiq::Queue.new.clear; nil");

    assert_eq!(scene.store.counts().await.unwrap().ready, 0);
}
