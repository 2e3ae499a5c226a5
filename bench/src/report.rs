//! A small table: a row for each measurement, the median and the least of its repetitions.

#[derive(Debug)]
pub struct Report {
    question: &'static str,
    rows: Vec<(String, String)>,
}

impl Report {
    pub fn new(question: &'static str) -> Report {
        Report { question, rows: Vec::new() }
    }

    /// Adds the repetitions of a measurement; answers their median.
    pub fn add(&mut self, name: &str, unit: &str, mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        let (least, median) = (values[0], values[values.len() / 2]);
        self.rows.push((name.to_owned(), format!("{:>12} {unit}, least {}", grouped(median), grouped(least))));
        median
    }

    /// Adds a row of words.
    pub fn say(&mut self, name: &str, words: String) {
        self.rows.push((name.to_owned(), words));
    }

    pub fn print(&self) {
        println!("\n{}", self.question);
        for (name, words) in &self.rows {
            println!("  {name:<52} {words}");
        }
    }
}

/// A number for people: two decimals, or thousands apart.
pub fn grouped(value: f64) -> String {
    if value < 1_000.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
