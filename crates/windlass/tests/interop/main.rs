//! windlass and the real Sidekiq on one Redis: each works what the other pushes, and Sidekiq's API and page read and
//! change what is ours.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use windlass::server::{RunningServer, Server};
use windlass::store::{Store, open};
use windlass::{Client, Handlers, ServerConfig};
use windlass_testbed::ruby::Ruby;
use windlass_testbed::wait;
use windlass_testbed::{RedisServer, redis};

mod acting;
mod dialects;
mod exchange;
mod looking;
mod options;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One Redis, with a place for Ruby programs and a store of ours on it.
struct Scene {
    server: RedisServer,
    ruby: Ruby,
    store: Arc<dyn Store>,
    client: Client,
}

impl Scene {
    /// `None` where Sidekiq is not installed: it is said on the error output.
    fn set_up() -> Option<Scene> {
        if !Ruby::is_installed() {
            redis::skip("sidekiq is not installed");
            return None;
        }
        let server = RedisServer::start().unwrap();
        let ruby = Ruby::at(&server.url()).unwrap();
        let major = ruby.version().unwrap().split('.').next().unwrap().to_owned();
        let store = open(&format!("{}?dialect={major}", server.url())).unwrap();
        Some(Scene { client: Client::new(Arc::clone(&store)), server, ruby, store })
    }

    /// A server of ours that beats often.
    async fn start(&self, handlers: Handlers) -> RunningServer {
        start_on(&self.store, handlers).await
    }

    fn ask(&self, snippet: &str) -> Value {
        self.ruby.ask(snippet).unwrap()
    }

    /// Asks Ruby again and again until it answers `wanted`.
    fn until(&self, snippet: &str, wanted: &Value) {
        let mut last = Value::Null;
        let reached = wait::until_true(snippet, PATIENCE, || {
            last = self.ask(snippet);
            last == *wanted
        });
        assert!(reached.is_ok(), "{snippet}: never {wanted}, but {last}");
    }

    fn cli(&self, words: &[&str]) -> windlass_testbed::Reply {
        self.server.cli(words).unwrap()
    }

    /// Waits until a command answers this number.
    fn until_number(&self, words: &[&str], number: i64) {
        let reached = wait::until_true("the number", PATIENCE, || self.cli(words).integer() == Some(number));
        assert!(reached.is_ok(), "{words:?}: never {number}, but {:?}", self.cli(words));
    }
}

/// A server on a store that beats often.
async fn start_on(store: &Arc<dyn Store>, handlers: Handlers) -> RunningServer {
    let config = ServerConfig {
        concurrency: 7,
        lease: Duration::from_secs(6),
        poll_interval: Duration::from_millis(50),
        ..ServerConfig::default()
    };
    Server::new(Arc::clone(store), handlers, config).unwrap().start().await.unwrap()
}

/// What handlers have to say to their test.
async fn heard<T>(told: &mut mpsc::UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, told.recv()).await.expect("a handler says something in time").unwrap()
}
