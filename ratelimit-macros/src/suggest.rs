//! "did you mean": the nearest of the names that would have been right.

/// The candidate that `wrong` most likely stands for, if one is near enough.
pub(crate) fn nearest<'a, I>(wrong: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    let length = wrong.chars().count();
    // Two-letter names are near to everything: let them differ by nothing but case.
    let tolerance = if length <= 2 { 0 } else { (length / 3).max(1) };
    candidates
        .into_iter()
        .map(|candidate| (distance(&wrong.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut left_of_a = None;
    for (row, in_a) in a.chars().enumerate() {
        let mut current = vec![row + 1];
        let mut left_of_b = None;
        for (column, in_b) in b.iter().copied().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut best = at(&last, column) + usize::from(in_a != in_b);
            best = best.min(at(&last, column + 1) + 1).min(at(&current, column) + 1);
            if let Some(two_back) = column.checked_sub(1)
                && left_of_a == Some(in_b)
                && left_of_b == Some(in_a)
            {
                best = best.min(at(&before, two_back) + 1);
            }
            current.push(best);
            left_of_b = Some(in_b);
        }
        before = std::mem::replace(&mut last, current);
        left_of_a = Some(in_a);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("email", "email", 0),
            ("emial", "email", 1),
            ("emal", "email", 1),
            ("emaill", "email", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn suggests_what_is_near() {
        let names = ["key", "window", "max", "on_refused"];
        assert_eq!(nearest("windw", names), Some("window"));
        assert_eq!(nearest("on_refuse", names), Some("on_refused"));
        assert_eq!(nearest("Max", names), Some("max"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("ip", ["id"]), None);
    }
}
