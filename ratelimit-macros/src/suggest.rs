//! "did you mean": the nearest of the names that would have been right.

/// Two names have to be more alike than this for one to be suggested for the other: one edit in
/// three letters is near enough, and two in six.
const ALIKE: f64 = 0.6;

/// The fewest letters that can be the beginning of a name.
const BEGINNING: usize = 3;

/// The candidate that `wrong` most likely stands for: one that is near enough, or else the only one
/// with this beginning.
pub(crate) fn nearest<'a, I>(wrong: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    let wrong = wrong.to_lowercase();
    let mut best = (ALIKE, None);
    let mut begun = Vec::new();
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let alike = strsim::normalized_damerau_levenshtein(&wrong, &lower);
        if alike > best.0 {
            best = (alike, Some(candidate));
        }
        if lower.starts_with(&wrong) {
            begun.push(candidate);
        }
    }
    best.1.or_else(|| {
        begun
            .pop()
            .filter(|_| begun.is_empty() && wrong.chars().count() >= BEGINNING)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 10] = [
        "key",
        "window",
        "max",
        "on_refused",
        "on_unavailable",
        "limits",
        "algorithm",
        "burst",
        "block",
        "wait",
    ];

    #[test]
    fn suggests_the_nearest_name() {
        for (wrong, meant) in [
            ("kye", "key"),
            ("mx", "max"),
            ("brust", "burst"),
            ("windw", "window"),
            ("algoritm", "algorithm"),
            ("on_refuse", "on_refused"),
            ("win", "window"),
        ] {
            assert_eq!(nearest(wrong, NAMES), Some(meant), "{wrong}");
        }
        assert_eq!(nearest("emial", ["id", "email"]), Some("email"));
    }

    #[test]
    fn suggests_nothing_silly() {
        for wrong in [
            "banana", "x", "ms", "ttl", "redis", "user", "enabled", "on_", "wi", "",
        ] {
            assert_eq!(nearest(wrong, NAMES), None, "{wrong}");
        }
        assert_eq!(nearest("ip", ["id"]), None);
    }
}
