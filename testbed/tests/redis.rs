//! What a test may expect of the Redis servers that it starts.

use std::path::Path;

use windlass_testbed::{Flavor, Link, Persistence, RedisOptions, RedisServer, Reply};

#[test]
fn a_started_server_answers_at_its_port_and_at_its_socket() {
    let server = RedisServer::start().unwrap();

    server.cli(&["SET", "a", "1"]).unwrap();

    assert_eq!(Link::unix(&server.socket()).unwrap().call(&["GET", "a"]).unwrap(), Reply::Bytes(b"1".to_vec()));
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}/0", server.port()));
}

#[test]
fn two_servers_share_nothing() {
    let (one, other) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());

    one.cli(&["SET", "a", "1"]).unwrap();

    assert_ne!(one.port(), other.port());
    assert_eq!(other.cli(&["GET", "a"]).unwrap(), Reply::Nil);
}

#[test]
fn what_was_answered_survives_kill_9_with_the_append_only_file_always() {
    let mut server = RedisServer::start_with(RedisOptions::default().persistence(Persistence::Always)).unwrap();
    let port = server.port();
    server.cli(&["SET", "a", "1"]).unwrap();

    server.kill9();
    assert!(server.cli(&["PING"]).is_err());
    server.restart().unwrap();

    assert_eq!(server.port(), port);
    assert_eq!(server.cli(&["GET", "a"]).unwrap().text(), "1");
}

#[test]
fn nothing_survives_kill_9_without_persistence() {
    let mut server = RedisServer::start().unwrap();
    server.cli(&["SET", "a", "1"]).unwrap();

    server.restart().unwrap();

    assert_eq!(server.cli(&["GET", "a"]).unwrap(), Reply::Nil);
}

#[test]
fn a_password_is_asked_for_and_is_in_the_url() {
    let server = RedisServer::start_with(RedisOptions::default().password("open-sesame")).unwrap();

    let refused = Link::tcp(server.port()).unwrap().ask(&["GET", "a"]).unwrap();

    assert!(refused.text().starts_with("NOAUTH"), "{refused:?}");
    assert!(server.cli(&["GET", "a"]).is_ok());
    assert!(server.url().contains(":open-sesame@"));
}

#[test]
fn a_full_server_refuses_writes_and_answers_reads() {
    let server = RedisServer::start_with(RedisOptions::default().memory_max_bytes(3 << 20)).unwrap();
    let mut link = server.link().unwrap();
    let value = "x".repeat(100_000);

    let refused = (0..100).find_map(|n| link.call(&["SET", &n.to_string(), &value]).err());

    assert!(format!("{:#}", refused.unwrap()).contains("OOM"));
    assert_eq!(link.call(&["STRLEN", "0"]).unwrap(), Reply::Integer(100_000));
}

#[test]
fn a_stopped_server_goes_on_where_it_was() {
    let mut server = RedisServer::start().unwrap();
    server.cli(&["SET", "a", "1"]).unwrap();

    server.stop_signal().unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).unwrap();
    server.cont_signal().unwrap();

    assert!(state.contains("T (stopped)"), "{state}");
    assert_eq!(server.cli(&["GET", "a"]).unwrap().text(), "1");
}

#[test]
fn a_server_that_is_dropped_is_gone_with_its_data() {
    let server = RedisServer::start().unwrap();
    let (id, folder, port) = (server.process_id(), server.folder().to_owned(), server.port());

    drop(server);

    assert!(!Path::new(&format!("/proc/{id}")).exists());
    assert!(!folder.exists());
    assert!(Link::tcp(port).is_err());
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let error = RedisServer::start_with(RedisOptions::default().with("no-such-option", "yes")).unwrap_err();

    assert!(format!("{error:#}").contains("no-such-option"), "{error:#}");
}

#[test]
fn valkey_does_the_same_where_it_is_installed() {
    let options = RedisOptions { flavor: Flavor::Valkey, ..RedisOptions::default() };
    let Some(server) = RedisServer::start_or_skip(options).unwrap() else { return };

    assert_eq!(server.cli(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn info_is_read_by_field() {
    let server = RedisServer::start().unwrap();

    assert_eq!(server.info_text("role").unwrap().as_deref(), Some("master"));
    assert!(server.info("total_commands_processed").unwrap().unwrap() >= 1.0);
    assert_eq!(server.info("no_such_field").unwrap(), None);
}
