//! A wavefront: each block of a table needs the block above it and the block to its left.
//!
//! Here the table is that of the longest common subsequence of two texts, in blocks of 64 × 64. The graph is made once
//! for the size, and knows nothing of the texts.

use std::sync::atomic::{AtomicU16, Ordering};

use windlass_pool::{Graph, Node, Pool};

const BLOCK_LEN: usize = 64;

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() {
    let pool = Pool::new().expect("the system gives threads");
    let (one, two) = (text(1, 500), text(2, 700));

    let found = length_in_blocks(&pool, &one, &two);

    println!("the longest common subsequence of {} and {} letters has {found}", one.len(), two.len());
    assert_eq!(found, length_in_rows(&one, &two));
}

/// A row and a column more than the texts are long, in one line of memory. Blocks write disjoint parts of it.
struct Table {
    cells: Vec<AtomicU16>,
    width: usize,
}

impl Table {
    fn at(&self, row: usize, column: usize) -> &AtomicU16 {
        &self.cells[row * self.width + column]
    }

    fn fill(&self, row: usize, column: usize, is_same: bool) {
        // Relaxed: the graph has ordered what this cell needs before it.
        let get = |row, column| self.at(row, column).load(Ordering::Relaxed);
        let value = if is_same { get(row - 1, column - 1) + 1 } else { get(row - 1, column).max(get(row, column - 1)) };
        self.at(row, column).store(value, Ordering::Relaxed);
    }
}

fn length_in_blocks(pool: &Pool, one: &[u8], two: &[u8]) -> u16 {
    let (height, width) = (one.len() + 1, two.len() + 1);
    let table = Table { cells: (0..height * width).map(|_| AtomicU16::new(0)).collect(), width };
    let table = &table;
    let mut graph = Graph::new();
    let mut above: Vec<Node> = Vec::new();
    for first_row in (1..height).step_by(BLOCK_LEN) {
        let mut row_of_blocks: Vec<Node> = Vec::new();
        for (number, first_column) in (1..width).step_by(BLOCK_LEN).enumerate() {
            let block = graph.add(move || {
                for row in first_row..height.min(first_row + BLOCK_LEN) {
                    for column in first_column..width.min(first_column + BLOCK_LEN) {
                        table.fill(row, column, one[row - 1] == two[column - 1]);
                    }
                }
            });
            graph.succeed(block, above.get(number).copied().as_slice());
            graph.succeed(block, row_of_blocks.last().copied().as_slice());
            row_of_blocks.push(block);
        }
        above = row_of_blocks;
    }
    let plan = graph.seal().expect("blocks wait for those before them only");
    plan.run(pool).expect("nobody else runs it");
    table.at(height - 1, width - 1).load(Ordering::Relaxed)
}

fn length_in_rows(one: &[u8], two: &[u8]) -> u16 {
    let mut row = vec![0_u16; two.len() + 1];
    for a in one {
        let mut before = 0;
        for (column, b) in two.iter().enumerate() {
            let above = row[column + 1];
            row[column + 1] = if a == b { before + 1 } else { above.max(row[column]) };
            before = above;
        }
    }
    row[two.len()]
}

/// Letters that look as if chosen by chance.
fn text(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        b'a' + (state % 4) as u8
    };
    (0..len).map(|_| letter()).collect()
}
