//! [`Table`]: Markdown.

use std::fmt;

pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.head.join(" | "))?;
        let right = vec!["---:"; self.head.len().saturating_sub(1)].join(" | ");
        writeln!(f, "| --- | {right} |")?;
        self.rows
            .iter()
            .try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

/// Two or three digits, and thousands and millions as such: `3.2`, `41`, `186 k`, `23 M`. Nothing
/// for no number.
pub fn number(figure: f64) -> String {
    match figure {
        figure if !figure.is_finite() => String::new(),
        figure if figure >= 9.95e6 => format!("{:.0} M", figure / 1e6),
        figure if figure >= 999_500.0 => format!("{:.1} M", figure / 1e6),
        figure if figure >= 9_950.0 => format!("{:.0} k", figure / 1e3),
        figure if figure >= 999.5 => format!("{:.1} k", figure / 1e3),
        figure if figure >= 9.95 => format!("{figure:.0}"),
        figure if figure >= 0.995 => format!("{figure:.1}"),
        figure => format!("{figure:.2}"),
    }
}

/// `1.43 ×`
pub fn ratio(figure: f64) -> String {
    match figure {
        figure if !figure.is_finite() => String::new(),
        figure if figure >= 9.95 => format!("{figure:.0} ×"),
        figure => format!("{figure:.2} ×"),
    }
}
