//! Graphs as drawings in the language of Graphviz.

use std::fmt::Write;

/// Nodes by their titles, edges by the numbers of the nodes; a condition is a diamond, and its edges are dashed.
pub(super) fn draw(
    titles: impl Iterator<Item = String>,
    edges: impl Iterator<Item = (u32, u32)>,
    is_condition: impl Fn(u32) -> bool,
) -> String {
    // Writing into a string cannot fail: the results below say nothing.
    let mut text = String::from("digraph {\n");
    for (number, title) in titles.enumerate() {
        let shape = if is_condition(number as u32) { " shape=diamond" } else { "" };
        let _ = writeln!(text, "  n{number} [label={}{shape}];", quoted(&title));
    }
    for (from, to) in edges {
        let style = if is_condition(from) { " [style=dashed]" } else { "" };
        let _ = writeln!(text, "  n{from} -> n{to}{style};");
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
