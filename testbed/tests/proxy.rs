//! What a proxy does to what goes through it, one fault after the other.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use windlass_testbed::wait::{self, until_true};
use windlass_testbed::{Direction, Fault, Proxy};

/// A server that sends back what it gets, on one connection after the other.
struct Echo {
    port: u16,
    _thread: JoinHandle<()>,
}

impl Echo {
    fn start() -> Echo {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 1024];
                // It ends with the connection, in whichever way that does.
                while let Ok(len @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..len]).is_err() {
                        break;
                    }
                }
            }
        });
        Echo { port, _thread: thread }
    }
}

fn set_up() -> (Echo, Proxy, TcpStream) {
    let echo = Echo::start();
    let proxy = Proxy::to(echo.port).unwrap();
    let client = connect(&proxy);
    (echo, proxy, client)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    client.set_read_timeout(Some(wait::LIMIT)).unwrap();
    client
}

/// Sends bytes and reads as many back.
fn echo(client: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    client.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    client.read_exact(&mut back).unwrap();
    back
}

/// That nothing comes back, as far as a short look can tell.
fn is_silent(client: &mut TcpStream) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let is_silent = client.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    client.set_read_timeout(Some(wait::LIMIT)).unwrap();
    is_silent
}

#[test]
fn without_a_fault_every_byte_arrives_and_is_counted() {
    let (_echo, proxy, mut client) = set_up();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();

    for piece in bytes.chunks(1_000) {
        assert_eq!(echo(&mut client, piece), piece);
    }

    assert_eq!((proxy.carried(Direction::Requests), proxy.carried(Direction::Replies)), (100_000, 100_000));
    assert_eq!((proxy.connections(), proxy.accepted()), (1, 1));
}

#[test]
fn a_delay_is_at_least_as_long_as_asked_for_in_both_directions_and_ends_when_healed() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Fault::Delay(Duration::from_millis(50))).unwrap();
    let since = Instant::now();

    assert_eq!(echo(&mut client, b"slow"), b"slow");
    assert!(since.elapsed() >= Duration::from_millis(100));

    proxy.set(Fault::Delay(Duration::from_secs(1_000))).unwrap();
    client.write_all(b"held").unwrap();
    proxy.heal().unwrap();
    let mut back = [0; 4];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"held");
}

#[test]
fn slices_arrive_whole_and_in_order() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Fault::Slice).unwrap();

    assert_eq!(echo(&mut client, b"sliced into bytes"), b"sliced into bytes");
}

#[test]
fn a_cut_reply_ends_after_exactly_so_many_bytes_and_the_next_connection_is_whole() {
    let (_echo, proxy, mut client) = set_up();
    assert_eq!(echo(&mut client, b"before"), b"before");
    proxy.set(Fault::Cut { direction: Direction::Replies, after_bytes: 3 }).unwrap();

    client.write_all(b"abcdef").unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();

    assert_eq!(back, b"abc");
    assert_eq!(proxy.strikes(), 1);
    let mut next = connect(&proxy);
    assert_eq!(echo(&mut next, b"after"), b"after");
}

#[test]
fn a_cut_request_reaches_the_server_only_so_far() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap().port()).unwrap();
    proxy.set(Fault::Cut { direction: Direction::Requests, after_bytes: 4 }).unwrap();
    let mut client = connect(&proxy);

    client.write_all(b"abcdef").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();

    assert_eq!(got, b"abcd");
    // The client is told: its connection is gone.
    assert!(client.read(&mut [0]).map_or(true, |len| len == 0));
}

#[test]
fn swallowed_replies_never_arrive_and_a_stream_with_a_hole_is_not_carried_on() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Fault::Swallow(Direction::Replies)).unwrap();

    client.write_all(b"lost").unwrap();
    assert!(is_silent(&mut client));
    proxy.heal().unwrap();
    client.write_all(b"after the hole").unwrap();

    assert!(is_silent(&mut client));
}

#[test]
fn stalled_bytes_arrive_when_healed() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Fault::Stall(Direction::Requests)).unwrap();

    client.write_all(b"late").unwrap();
    assert!(is_silent(&mut client));
    proxy.heal().unwrap();

    let mut back = [0; 4];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"late");
}

#[test]
fn who_is_refused_is_told_at_once_and_is_welcome_after_the_healing() {
    let (_echo, proxy, mut client) = set_up();
    assert_eq!(echo(&mut client, b"before"), b"before");

    for _ in 0..5 {
        proxy.set(Fault::Refuse).unwrap();
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        proxy.heal().unwrap();
        let mut next = connect(&proxy);
        assert_eq!(echo(&mut next, b"after"), b"after");
    }

    assert!(client.read(&mut [0]).map_or(true, |len| len == 0), "an old connection outlived the refusal");
}

#[test]
fn connections_that_are_cut_are_reset_on_both_sides_and_forgotten() {
    let (_echo, proxy, mut client) = set_up();
    assert_eq!(echo(&mut client, b"before"), b"before");

    proxy.cut_all();

    assert!(client.read(&mut [0]).map_or(true, |len| len == 0));
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn an_end_is_carried_to_the_other_side() {
    let (_echo, proxy, mut client) = set_up();
    assert_eq!(echo(&mut client, b"before"), b"before");

    client.shutdown(std::net::Shutdown::Write).unwrap();

    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    until_true("the proxy to forget the connection", wait::LIMIT, || proxy.connections() == 0).unwrap();
}

#[test]
fn where_no_server_is_the_client_finds_its_connection_closed() {
    let nobody = windlass_testbed::port::Port::reserve().unwrap();
    let proxy = Proxy::to(nobody.number()).unwrap();

    let mut client = connect(&proxy);

    assert!(client.read(&mut [0]).map_or(true, |len| len == 0));
}
