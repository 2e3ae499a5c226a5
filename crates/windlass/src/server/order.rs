//! From which queues to take the next jobs: pure functions that make a [`LeasePlan`].
//!
//! A plan gives every queue its share of the room first, and then, in the same order, what the others left unused:
//! so an order decides between queues that are all full, and never keeps a place empty while a job waits.
//!
//! | order | first pass | who may starve |
//! |---|---|---|
//! | strict | everything to the first queue, then the second … | every queue but the first |
//! | weighted | by weight, rounded at random so that small shares come in turn | none: shares are kept on average |
//! | fair | the same for each queue, beginning with another one every time | none |

use crate::config::{QueueConfig, QueueOrder};
use crate::entropy::Entropy;
use crate::store::{LeasePlan, Take};

/// Plans to take up to `room` jobs.
pub(crate) fn plan(queues: &[QueueConfig], order: QueueOrder, room: usize, entropy: &Entropy) -> LeasePlan {
    let shares = match order {
        QueueOrder::Strict => Vec::new(),
        QueueOrder::Weighted => weighted_shares(queues, room, entropy),
        QueueOrder::Fair => fair_shares(queues, room, entropy),
    };
    let first_pass = shares.iter().filter(|(_, share)| *share > 0).map(|&(queue, share)| take(queue, share));
    let mut rest: Vec<&QueueConfig> = queues.iter().collect();
    if order != QueueOrder::Strict && !rest.is_empty() {
        // What is left over goes round, too: the first in the configuration has no advantage.
        let first = entropy.below(rest.len() as u64) as usize;
        rest.rotate_left(first);
    }
    let second_pass = rest.iter().map(|queue| take(queue, room));
    LeasePlan { takes: first_pass.chain(second_pass).collect(), max: room }
}

fn take(queue: &QueueConfig, max: usize) -> Take {
    Take { queue: queue.name.clone(), max, at_most_once: queue.at_most_once }
}

/// Each queue's part of `room` by weight. Fractions are rounded up with the probability of their size, so that a
/// queue with a twentieth of the weight gets one of the next twenty places and not none of them.
fn weighted_shares<'a>(queues: &'a [QueueConfig], room: usize, entropy: &Entropy) -> Vec<(&'a QueueConfig, usize)> {
    let total: u64 = queues.iter().map(|queue| u64::from(queue.weight)).sum();
    let share = |queue: &'a QueueConfig| {
        let exact = room as f64 * f64::from(queue.weight) / total.max(1) as f64;
        let rounded_up = entropy.fraction() < exact.fract();
        (queue, exact as usize + usize::from(rounded_up))
    };
    let mut shares: Vec<_> = queues.iter().map(share).collect();
    // Rounding up may promise more than there is room for: the order in which shares are served must be random.
    shuffle(&mut shares, entropy);
    shares
}

fn fair_shares<'a>(queues: &'a [QueueConfig], room: usize, entropy: &Entropy) -> Vec<(&'a QueueConfig, usize)> {
    let mut shares: Vec<_> = queues.iter().map(|queue| (queue, room.div_ceil(queues.len()))).collect();
    shuffle(&mut shares, entropy);
    shares
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], entropy: &Entropy) {
    for last in (1..items.len()).rev() {
        items.swap(last, entropy.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, weight: u32) -> QueueConfig {
        QueueConfig { name: name.to_owned(), weight, at_most_once: false }
    }

    /// Takes `room` jobs from queues that never run empty, `rounds` times, and counts them by queue.
    fn taken(queues: &[QueueConfig], order: QueueOrder, room: usize, rounds: usize) -> Vec<usize> {
        let entropy = Entropy::seeded(11);
        let mut counts = vec![0; queues.len()];
        for _ in 0..rounds {
            let plan = plan(queues, order, room, &entropy);
            let mut left = plan.max;
            for take in &plan.takes {
                let got = take.max.min(left);
                let index = queues.iter().position(|queue| queue.name == take.queue).unwrap();
                counts[index] += got;
                left -= got;
            }
            assert_eq!(left, 0);
        }
        counts
    }

    #[test]
    fn strict_order_takes_everything_from_the_first_full_queue() {
        assert_eq!(taken(&[queue("a", 1), queue("b", 9)], QueueOrder::Strict, 10, 5), [50, 0]);
    }

    #[test]
    fn weighted_order_keeps_the_weights_also_with_room_for_one() {
        for room in [1, 7, 100] {
            let counts = taken(&[queue("a", 1), queue("b", 3)], QueueOrder::Weighted, room, 20_000 / room);
            let part = counts[0] as f64 / (counts[0] + counts[1]) as f64;
            assert!((0.22..0.28).contains(&part), "room {room}: a got {part}");
        }
    }

    #[test]
    fn fair_order_treats_all_queues_alike() {
        let counts = taken(&[queue("a", 1), queue("b", 9), queue("c", 1)], QueueOrder::Fair, 2, 9_000);

        assert!(counts.iter().all(|count| (5_600..6_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn every_queue_may_use_what_the_others_leave() {
        for order in [QueueOrder::Strict, QueueOrder::Weighted, QueueOrder::Fair] {
            let plan = plan(&[queue("a", 1), queue("b", 1)], order, 8, &Entropy::seeded(2));
            for name in ["a", "b"] {
                assert!(plan.takes.iter().any(|take| take.queue == name && take.max == 8), "{order:?} {name}");
            }
        }
    }
}
