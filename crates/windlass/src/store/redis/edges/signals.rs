//! Signals that Sidekiq's page and API leave for a process, as orders.

use crate::store::ProcessOrder;

/// The orders that signals mean: each once, the gentlest first. A signal that Sidekiq has no use for means nothing here
/// either.
pub(crate) fn orders<'a>(signals: impl IntoIterator<Item = &'a [u8]>) -> Vec<ProcessOrder> {
    let mut orders: Vec<ProcessOrder> = signals.into_iter().filter_map(order).collect();
    orders.sort_unstable();
    orders.dedup();
    orders
}

fn order(signal: &[u8]) -> Option<ProcessOrder> {
    match signal {
        b"TTIN" => Some(ProcessOrder::Dump),
        // USR1 is what it was called before Sidekiq 5.
        b"TSTP" | b"USR1" => Some(ProcessOrder::Quiet),
        b"TERM" | b"INT" => Some(ProcessOrder::Stop),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_told_once_the_gentlest_first_whatever_was_pushed() {
        let left: [&[u8]; 6] = [b"TERM", b"TSTP", b"TTIN", b"TSTP", b"HUP", b"USR1"];

        assert_eq!(orders(left), [ProcessOrder::Dump, ProcessOrder::Quiet, ProcessOrder::Stop]);
        assert_eq!(orders([]), []);
    }
}
