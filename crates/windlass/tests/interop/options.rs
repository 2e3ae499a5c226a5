//! Sidekiq's options for single jobs mean here what they mean there.

use serde_json::json;
use windlass::job::Payload;
use windlass::{Context, HandlerError, Handlers};

use crate::Scene;

async fn must_not_run(args: Payload, _: Context) {
    panic!("it was run with {}", args.to_text());
}

async fn fail(_: Payload, _: Context) -> Result<(), HandlerError> {
    Err(HandlerError::msg("never"))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_paid_editions_are_kept_among_the_retries_with_the_reason_and_never_run() {
    let Some(scene) = Scene::set_up() else { return };
    let server = scene.start(Handlers::new().raw("Paid", must_not_run)).await;

    scene.ask(
        r#"Sidekiq::Client.push("class" => "Paid", "args" => [], "bid" => "b-1")
           Sidekiq::Client.push("class" => "Paid", "args" => ["c2VjcmV0"], "encrypt" => true)"#,
    );

    scene.until_number(&["ZCARD", "retry"], 2);
    let told = scene.ask(
        r#"Sidekiq::RetrySet.new.map { |job| [job["bid"], job["encrypt"], job["error_class"], job["error_message"]] }.sort_by(&:to_s)"#,
    );
    let told = told.as_array().unwrap();
    assert_eq!((&told[0][0], &told[1][1]), (&json!("b-1"), &json!(true)));
    for job in told {
        assert_eq!(job[2], "Unsupported", "{job}");
        assert!(job[3].as_str().unwrap().contains("paid edition of Sidekiq"), "{job}");
    }
    assert!(server.stop().await.is_clean);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_retried_buried_or_dropped_as_its_options_say() {
    let Some(scene) = Scene::set_up() else { return };
    let server = scene.start(Handlers::new().raw("Fail", fail)).await;

    scene.ask(
        r#"[["dropped", { "retry" => false }], ["buried", { "retry" => 0 }], ["no morgue", { "retry" => 0, "dead" => false }],
            ["moved", { "retry" => 5, "retry_queue" => "slow" }]].each do |name, options|
             Sidekiq::Client.push({ "class" => "Fail", "args" => [name] }.merge(options))
           end
           nil"#,
    );

    scene.until_number(&["GET", "stat:processed"], 4);
    let left = scene.ask(
        r#"[Sidekiq::RetrySet.new.map { |job| [job.args, job.queue] }, Sidekiq::DeadSet.new.map(&:args), Sidekiq::Stats.new.failed]"#,
    );
    assert_eq!(left, json!([[[["moved"], "slow"]], [["buried"]], 4]));
    assert!(server.stop().await.is_clean);
}
