//! Suggestions, as in "did you mean": the nearest of the valid names.

/// The similarity, from 0 to 1, above which a name is suggested for another: one edit in three
/// letters is near enough, and so are two in six.
const ALIKE: f64 = 0.6;

/// The fewest letters that are taken for the beginning of a name.
const BEGINNING: usize = 3;

/// The candidate that `wrong` most likely means: the one most [`ALIKE`], else the only one that
/// begins with `wrong`.
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
    fn the_nearest_name_is_suggested() {
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
    fn a_name_that_is_far_off_is_not_suggested() {
        for wrong in [
            "banana", "x", "ms", "ttl", "redis", "user", "enabled", "on_", "wi", "",
        ] {
            assert_eq!(nearest(wrong, NAMES), None, "{wrong}");
        }
        assert_eq!(nearest("ip", ["id"]), None);
    }
}
