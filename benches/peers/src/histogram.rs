//! [`Histogram`]: how long calls took, to within a thirty-second.

/// Buckets per doubling, as a power of two.
const FINE: u32 = 5;

/// Counts of durations in nanoseconds, up to 2⁶⁴.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Self {
            counts: vec![0; (64 << FINE) as usize],
            total: 0,
        }
    }

    pub fn add(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count += other;
        }
        self.total += other.total;
    }

    /// The duration in nanoseconds that this share of the calls did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(f64::NAN, upper)
    }
}

fn bucket(nanoseconds: u64) -> usize {
    let at = nanoseconds.max(1 << FINE);
    let exponent = 63 - at.leading_zeros() - FINE;
    (((exponent as u64) << FINE) + (at >> exponent) - (1 << FINE)) as usize
}

fn upper(bucket: usize) -> f64 {
    let (exponent, rest) = (bucket >> FINE, bucket & ((1 << FINE) - 1));
    (((1 << FINE) + rest + 1) as f64) * 2f64.powi(exponent as i32)
}

/// The middle one of these figures; the upper of two.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_thirty_second() {
        let mut histogram = Histogram::new();
        for nanoseconds in 1..=100_000 {
            histogram.add(nanoseconds);
        }
        for share in [0.1, 0.5, 0.99, 1.0] {
            let (found, exact) = (histogram.quantile(share), share * 100_000.0);
            assert!(found >= exact && found <= exact * 1.04, "{share}: {found}");
        }
    }
}
