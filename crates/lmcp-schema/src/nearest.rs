//! Finds the valid key that the writer of an invalid key may have meant.

/// Returns the most similar candidate, if one is similar enough.
pub fn nearest<'a>(key: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if key.len() > MOST_BYTES {
        return None;
    }
    let wanted: Vec<char> = fold(key).collect();
    if wanted.len() > MAX_LENGTH {
        return None;
    }
    let near = candidates.filter_map(|candidate| {
        let folded: Vec<char> = fold(candidate).collect();
        (folded.len() <= MAX_LENGTH)
            .then(|| distance(&wanted, &folded))
            .flatten()
            .map(|distance| (distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Whether two keys differ only in their spelling.
pub fn is_same(left: &str, right: &str) -> bool {
    fold(left).eq(fold(right))
}

/// Removes the differences between `maxResults`, `max_results` and `max-results`.
fn fold(key: &str) -> impl Iterator<Item = char> {
    key.chars()
        .filter(|char| !matches!(char, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
}

/// Returns the distance of two keys; `None` if they are too different to be confused.
fn distance(left: &[char], right: &[char]) -> Option<usize> {
    let edits = edits(left, right);
    let longer = left.len().max(right.len());
    if edits * 3 <= longer.max(3) {
        return Some(edits);
    }
    let (short, long) = if left.len() < right.len() {
        (left, right)
    } else {
        (right, left)
    };
    // `path` for `file_path`. This counts as farther than any typing error.
    let contained = short.len() >= 3 && long.windows(short.len()).any(|window| window == short);
    contained.then_some(MAX_LENGTH + edits)
}

/// Counts insertions, deletions, replacements and swaps of neighbours.
fn edits(left: &[char], right: &[char]) -> usize {
    let mut before = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, from) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, to) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(from != to);
            let mut best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *from == right[column - 1] && left[row - 1] == *to {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[right.len()]
}

/// The most characters of a key. A longer key is no typing error, and its comparison takes time.
const MAX_LENGTH: usize = 64;
/// The most bytes of a key that is compared, separators included.
const MOST_BYTES: usize = 8 * MAX_LENGTH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["text", "max_results", "file_path", "mode"];
        for (key, expected) in [
            ("txet", Some("text")),
            ("tex", Some("text")),
            ("TEXT", Some("text")),
            ("maxResults", Some("max_results")),
            ("max-result", Some("max_results")),
            ("path", Some("file_path")),
            ("model", Some("mode")),
            ("x", None),
            ("completely_else", None),
            ("", None),
        ] {
            assert_eq!(nearest(key, known.into_iter()), expected, "{key}");
        }
        assert_eq!(nearest(&"text".repeat(1000), known.into_iter()), None);
        assert_eq!(nearest(&"_".repeat(1000), known.into_iter()), None);
        assert!(is_same("maxResults", "max_results") && !is_same("text", "texts"));
    }
}
