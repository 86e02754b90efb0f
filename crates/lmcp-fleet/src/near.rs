//! Finds names that are nearly the one that was meant, in one step for each letter of a known name. No I/O.

use crate::limits::NEAR;

/// Letters of a name that are compared: one bit each.
const LETTERS: usize = 64;

/// Returns the known names that are nearest to a name, the nearest first.
pub(crate) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = Wanted::of(name);
    let mut near: Vec<_> = known
        .map(|known| (wanted.distance(known), known))
        .filter(|(distance, known)| *distance <= (name.len() / 3).max(2) || known.contains(name))
        .collect();
    near.sort_unstable();
    near.iter().take(NEAR).map(|(_, name)| *name).collect()
}

/// The beginning of a name, ready to be compared with many others.
struct Wanted {
    /// For each letter of ASCII: its places, one bit each. Other letters are none of a name.
    places: [u64; 128],
    length: usize,
}

impl Wanted {
    fn of(name: &str) -> Self {
        let (mut places, mut length) = ([0; 128], 0);
        for (place, letter) in name.chars().take(LETTERS).enumerate() {
            if let Some(its) = places.get_mut(letter as usize) {
                *its |= 1 << place;
            }
            length = place + 1;
        }
        Self { places, length }
    }

    /// Returns how many letters must be changed, added or removed to turn one name into the other.
    ///
    /// A row of the usual table is two words: a bit is set where the number goes up, or down, from one place to the next
    /// (Myers 1999, with the row above it as Hyyrö 2003 has it).
    fn distance(&self, known: &str) -> usize {
        let Some(last) = self.length.checked_sub(1) else {
            return known.chars().take(LETTERS).count();
        };
        let (mut up, mut down, mut distance) = (u64::MAX, 0_u64, self.length);
        for letter in known.chars().take(LETTERS) {
            let same = self
                .places
                .get(letter as usize)
                .copied()
                .unwrap_or_default();
            let across = ((same & up).wrapping_add(up) ^ up) | same;
            let more = down | !(across | up);
            let less = up & across;
            distance = distance + (more >> last & 1) as usize - (less >> last & 1) as usize;
            let more = more << 1 | 1;
            let same = same | down;
            up = less << 1 | !(same | more);
            down = more & same;
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Says the same with the usual table.
    fn slowly(one: &str, other: &str) -> usize {
        let other: Vec<char> = other.chars().take(LETTERS).collect();
        let mut row: Vec<usize> = (0..=other.len()).collect();
        for (line, letter) in one.chars().take(LETTERS).enumerate() {
            let mut diagonal = row[0];
            row[0] = line + 1;
            for (place, its) in other.iter().enumerate() {
                let changed = diagonal + usize::from(letter != *its);
                diagonal = row[place + 1];
                row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
            }
        }
        row[other.len()]
    }

    proptest! {
        #[test]
        fn the_distance_of_names_is_the_usual_one(one in "[abc]{0,70}", other in "[abc]{0,70}") {
            prop_assert_eq!(Wanted::of(&one).distance(&other), slowly(&one, &other));
        }
    }

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["db1", "web1", "web2", "west"];
        assert_eq!(near("wbe1", known.into_iter()), ["db1", "web1"]);
        assert_eq!(near("web", known.into_iter()), ["web1", "web2", "west"]);
        assert!(near("elsewhere", known.into_iter()).is_empty());
    }
}
