//! The client that posts jobs: connections are kept, names are looked at after they are looked up.
//!
//! A listed name may come to stand for another address at any time. Addresses of the machine's own link, where clouds
//! answer questions about the machine and its credentials, are therefore never connected to by name. Who means such
//! an address lists it as a number.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower_service::Service;

use super::places::Places;
use crate::exit::Usage;

/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a connection that nobody uses is kept.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Addresses outside the link-local ranges where clouds describe a machine.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector<Resolver>>;
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector<Resolver>;

/// Posts. Cheap to clone.
pub(super) type Requests = Client<Connector, Full<Bytes>>;

/// A client for `places`, for so many requests at a time.
///
/// # Errors
/// A place wants TLS, and there is none.
pub(super) fn requests(places: &Places, count_max: usize) -> anyhow::Result<Requests> {
    let mut plain = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
    plain.set_nodelay(true);
    plain.set_connect_timeout(Some(CONNECT_TIME));
    plain.enforce_http(false);
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_idle_timeout(IDLE_TIME).pool_max_idle_per_host(count_max).pool_timer(TokioTimer::new());
    Ok(builder.build(secured(plain, places)?))
}

/// The connector with TLS, by the certificates that the system trusts.
#[cfg(feature = "tls")]
fn secured(plain: HttpConnector<Resolver>, places: &Places) -> anyhow::Result<Connector> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if places.need_tls() && roots.is_empty() {
        let what = "allow_http: the system trusts no certificates, and a place begins with https://";
        return Err(Usage(format!("{what}: install ca-certificates")).into());
    }
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    Ok(builder.enable_http1().wrap_connector(plain))
}

/// The connector as it is. Jobs for `https` addresses do not come so far.
#[cfg(not(feature = "tls"))]
fn secured(plain: HttpConnector<Resolver>, places: &Places) -> anyhow::Result<Connector> {
    if places.need_tls() {
        return Err(Usage("allow_http: this program was built without the feature `tls`".to_owned()).into());
    }
    Ok(plain)
}

/// The system's resolver, without the addresses that a name must not stand for.
#[derive(Debug, Clone)]
pub(super) struct Resolver(GaiResolver);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Service::poll_ready(&mut self.0, ctx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let text = name.to_string();
        let found = self.0.call(name);
        Box::pin(async move { public(&text, found.await?) })
    }
}

/// The addresses that a name may stand for.
fn public(name: &str, found: impl Iterator<Item = SocketAddr>) -> io::Result<std::vec::IntoIter<SocketAddr>> {
    let (forbidden, allowed): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.partition(|address| is_forbidden(address.ip()));
    match (forbidden.first(), allowed.is_empty()) {
        (Some(address), true) => {
            let message = format!("{name} stands for {}, which may be posted to only if it is listed so", address.ip());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
        }
        _ => Ok(allowed.into_iter()),
    }
}

fn is_forbidden(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_of_the_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    is_of_the_link || address.is_unspecified() || address.is_multicast() || METADATA.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_stands_for_the_link_or_a_clouds_metadata() {
        for text in [
            "169.254.169.254",
            "169.254.1.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "224.0.0.1",
        ] {
            assert!(is_forbidden(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "93.184.216.34"] {
            assert!(!is_forbidden(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn of_several_addresses_the_forbidden_are_left_out() {
        let bad: SocketAddr = "169.254.169.254:80".parse().unwrap();
        let good: SocketAddr = "10.0.0.1:80".parse().unwrap();

        assert_eq!(public("a.test", [bad, good].into_iter()).unwrap().collect::<Vec<_>>(), [good]);
        let error = public("a.test", [bad].into_iter()).unwrap_err().to_string();
        assert!(error.contains("a.test stands for 169.254.169.254"), "{error}");
    }
}
