//! [`Printed`]: what another program printed.

/// Its text; empty if it was not run.
pub struct Printed(pub String);

impl Printed {
    /// Of `scripts/compile-cost.sh`: the time for functions with the attribute, against those with
    /// `#[tracing::instrument]`.
    pub fn against_instrument(&self) -> f64 {
        let ratio = self.0.lines().find_map(|line| {
            line.strip_prefix("rate_limit / instrument ")?
                .split(';')
                .next()
        });
        ratio
            .and_then(|ratio| ratio.parse().ok())
            .unwrap_or(f64::NAN)
    }

    pub fn report(&self) -> String {
        match self.0.trim_end() {
            "" => "Not measured in this run.\n".to_owned(),
            printed => format!("```text\n{printed}\n```\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_found() {
        let compile =
            Printed("bare 1.0\nrate_limit / instrument 0.41; above bare 0.33\n".to_owned());
        assert!((compile.against_instrument() - 0.41).abs() < 1e-9);
        assert!(Printed(String::new()).against_instrument().is_nan());
    }
}
