//! A cluster of three masters on the loopback address, with all slots assigned.

use anyhow::{Context as _, Result};

use crate::port::Port;
use crate::redis::{RedisOptions, RedisServer};
use crate::resp::Reply;
use crate::wait;

/// The slots of every cluster.
pub const SLOT_COUNT: u16 = 16_384;

/// How many keys are moved by one command when a slot is given to another node.
const KEYS_A_MOVE: &str = "100";

/// Three masters. All are ended when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
    buses: Vec<Port>,
}

impl Cluster {
    /// Starts three nodes with `options`, each with a third of the slots, and waits until all of them agree that the
    /// cluster is whole.
    ///
    /// # Errors
    /// When one of them does not start, or they do not agree.
    pub fn start(options: &RedisOptions) -> Result<Cluster> {
        let (mut nodes, mut buses) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let bus = Port::reserve()?;
            let options = options
                .clone()
                .with("cluster-enabled", "yes")
                .with("cluster-config-file", "nodes.conf")
                .with("cluster-node-timeout", "2000")
                .with("cluster-port", &bus.number().to_string());
            nodes.push(RedisServer::start_with(options)?);
            buses.push(bus);
        }
        let cluster = Cluster { nodes, buses };
        cluster.assign()?;
        cluster.meet()?;
        cluster.until_whole()?;
        Ok(cluster)
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// A node, to be killed or stopped.
    pub fn node(&mut self, index: usize) -> &mut RedisServer {
        &mut self.nodes[index]
    }

    /// Where the nodes listen.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(RedisServer::port).collect()
    }

    /// `redis://…` of the first node.
    #[must_use]
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// When the first node does not answer.
    pub fn slot_of(&self, key: &str) -> Result<u16> {
        let slot = self.nodes[0].cli(&["CLUSTER", "KEYSLOT", key])?.integer();
        slot.and_then(|slot| u16::try_from(slot).ok()).context("no number for a slot")
    }

    /// The index of the node that serves a slot, as the nodes agree.
    ///
    /// # Errors
    /// When the nodes do not answer, or no node serves it.
    pub fn owner_of(&self, slot: u16) -> Result<usize> {
        let Reply::Array(ranges) = self.nodes[0].cli(&["CLUSTER", "SLOTS"])? else {
            anyhow::bail!("no ranges of slots")
        };
        for range in &ranges {
            let Reply::Array(fields) = range else { continue };
            let bound = |index: usize| fields.get(index).and_then(Reply::integer).unwrap_or(-1);
            if (bound(0)..=bound(1)).contains(&i64::from(slot)) {
                let port = fields.get(2).map(Reply::texts).and_then(|node| node.get(1)?.parse().ok());
                let owner = self.nodes.iter().position(|node| Some(node.port()) == port);
                return owner.context("a slot is served by a node that is none of ours");
            }
        }
        anyhow::bail!("no node serves the slot {slot}")
    }

    /// Gives a slot with its keys to another node, as `redis-cli --cluster reshard` does, while clients go on. They are
    /// sent on with ASK until it is done, and with MOVED from then on.
    ///
    /// # Errors
    /// When a node refuses.
    pub fn move_slot(&self, slot: u16, target: usize) -> Result<()> {
        let owner = self.owner_of(slot)?;
        let (slot, keep, get) = (slot.to_string(), &self.nodes[owner], &self.nodes[target]);
        let (keep_id, get_id) = (id_of(keep)?, id_of(get)?);
        get.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &keep_id])?;
        keep.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &get_id])?;
        let port = get.port().to_string();
        loop {
            let keys = keep.cli(&["CLUSTER", "GETKEYSINSLOT", &slot, KEYS_A_MOVE])?.texts();
            if keys.is_empty() {
                break;
            }
            let mut command: Vec<&str> = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            command.extend(keys.iter().map(String::as_str));
            keep.cli(&command)?;
        }
        // The one that gets it first: a slot must never be nobody's.
        get.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &get_id])?;
        keep.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &get_id])?;
        Ok(())
    }

    fn assign(&self) -> Result<()> {
        let count = u16::try_from(self.nodes.len()).context("too many nodes")?;
        for (node, index) in self.nodes.iter().zip(0..count) {
            let (first, next) = (SLOT_COUNT / count * index, SLOT_COUNT / count * (index + 1));
            let last = if index + 1 == count { SLOT_COUNT - 1 } else { next - 1 };
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        Ok(())
    }

    fn meet(&self) -> Result<()> {
        for (node, bus) in self.nodes.iter().zip(&self.buses).skip(1) {
            let (port, bus) = (node.port().to_string(), bus.number().to_string());
            self.nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        Ok(())
    }

    /// Waits until every node says that all nodes are known and all slots are served.
    ///
    /// # Errors
    /// When they do not.
    pub fn until_whole(&self) -> Result<()> {
        let wanted =
            ["cluster_state:ok", "cluster_slots_ok:16384", &format!("cluster_known_nodes:{}", self.nodes.len())];
        for node in &self.nodes {
            wait::until(&format!("the node at port {} to see the whole cluster", node.port()), wait::LIMIT, || {
                let info = node.cli(&["CLUSTER", "INFO"])?.text();
                let has_all = wanted.iter().all(|line| info.lines().any(|found| found.trim() == *line));
                Ok(has_all.then_some(()))
            })?;
        }
        Ok(())
    }
}

fn id_of(node: &RedisServer) -> Result<String> {
    Ok(node.cli(&["CLUSTER", "MYID"])?.text())
}

/// The number that MOVED or ASK names, with the port to go to; or `None` for another reply.
#[must_use]
pub fn redirect_of(reply: &Reply) -> Option<(u16, u16)> {
    let Reply::Error(error) = reply else { return None };
    let mut words = error.split(' ');
    let is_redirect = matches!(words.next(), Some("MOVED" | "ASK"));
    let slot = words.next()?.parse().ok()?;
    let port = words.next()?.rsplit(':').next()?.parse().ok()?;
    is_redirect.then_some((slot, port))
}
