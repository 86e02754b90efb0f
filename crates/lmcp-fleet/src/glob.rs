//! Compares names of hosts with globs, in one step for each letter of a glob. No I/O.

/// The letters of one name, ready to be compared with any number of globs.
pub(crate) struct Letters {
    /// For each letter of ASCII: its places in the name, one bit each.
    places: [u128; 128],
    /// One bit for each letter of the name.
    all: u128,
}

impl Letters {
    /// Reads a name. A name is ASCII and has at most 128 letters; a longer text, or another one, fits no glob.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let mut places = [0; 128];
        if name.len() > 128 {
            return None;
        }
        for (place, letter) in name.bytes().enumerate() {
            *places.get_mut(usize::from(letter))? |= 1 << place;
        }
        let unused = 128 - u32::try_from(name.len()).ok()?;
        let all = u128::MAX.checked_shr(unused).unwrap_or_default();
        Some(Self { places, all })
    }

    /// Returns whether the name fits a glob. `*` is any text, `?` any letter.
    pub(crate) fn fit(&self, glob: &str) -> bool {
        // Whether the glob so far fits the empty beginning of the name, and a bit for each letter with which a beginning ends
        // that it fits. So all ways to divide the name between the stars are followed at once.
        let (mut is_start, mut ends) = (true, 0_u128);
        for letter in glob.bytes() {
            if letter == b'*' {
                ends = match is_start {
                    true => self.all,
                    // Sets every bit from the lowest one upward.
                    false => (ends | ends.wrapping_neg()) & self.all,
                };
                continue;
            }
            let next = ends << 1 | u128::from(is_start);
            is_start = false;
            ends = next
                & match letter {
                    b'?' => self.all,
                    letter => self
                        .places
                        .get(usize::from(letter))
                        .copied()
                        .unwrap_or_default(),
                };
            if ends == 0 {
                return false;
            }
        }
        match self.all {
            0 => is_start,
            all => ends & (all ^ (all >> 1)) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fits(glob: &str, name: &str) -> bool {
        Letters::of(name).expect("it is a name").fit(glob)
    }

    /// Says the same, and takes as long as it takes.
    fn fits_slowly(glob: &[u8], name: &[u8]) -> bool {
        match (glob.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) if fits_slowly(rest, name) => true,
            (Some((b'*', _)), Some((_, rest))) => fits_slowly(glob, rest),
            (Some((letter, glob)), Some((its, name))) if *letter == b'?' || letter == its => {
                fits_slowly(glob, name)
            }
            _ => false,
        }
    }

    #[test]
    fn a_glob_is_matched_whole() {
        let longest = "a".repeat(128);
        for (glob, name, is_fit) in [
            ("*", "", true),
            ("", "", true),
            ("?", "", false),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "aXbYb", false),
            ("web?", "web", false),
            ("web", "web1", false),
            ("*1*", "web12", true),
            ("wé*", "web", false),
            ("*a", &longest, true),
            ("?*a*b", &longest, false),
            (&longest, &longest, true),
            (&format!("{longest}?"), &longest, false),
        ] {
            assert_eq!(fits(glob, name), is_fit, "{glob} {name}");
        }
        assert!(Letters::of(&"a".repeat(129)).is_none() && Letters::of("é").is_none());
    }

    proptest! {
        #[test]
        fn every_glob_means_what_it_says(glob in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(fits(&glob, &name), fits_slowly(glob.as_bytes(), name.as_bytes()));
        }
    }
}
