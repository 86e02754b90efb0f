//! The difference in indentation between a text and the lines of a file that match it.

use super::lines;

/// The conversion from the indentation of the text to that of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shift<'a> {
    /// The file has these blanks more in front.
    More(&'a [u8]),
    /// The file has these blanks less in front.
    Less(&'a [u8]),
    /// Tabs for spaces, two for four: the least indentation in both, and the pairs of deeper steps.
    Steps(Pair<'a>, Vec<Pair<'a>>),
}

/// An indentation in the text and the same in the file.
type Pair<'a> = (&'a [u8], &'a [u8]);

impl<'a> Shift<'a> {
    /// Returns the conversion. `None` if one indentation of the text is two different ones in the file:
    /// then the lines are not the same code.
    pub(super) fn between(
        text: impl Iterator<Item = &'a [u8]>,
        file: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let mut pairs: Vec<Pair<'a>> = Vec::new();
        // Blank lines are left out: they are often not indented at all.
        let both = text
            .zip(file)
            .filter(|(text, _)| !lines::trim_start(text).is_empty());
        for (text, file) in both {
            let (text, file) = (lines::indent(text), lines::indent(file));
            match pairs.iter().find(|(known, _)| *known == text) {
                Some((_, known)) if *known != file => return None,
                Some(_) => {}
                None => pairs.push((text, file)),
            }
        }
        let (text, file) = *pairs.first()?;
        if let Some(more) = file.strip_suffix(text)
            && pairs
                .iter()
                .all(|(text, file)| file.strip_prefix(more) == Some(text))
        {
            return Some(Self::More(more));
        }
        if let Some(less) = text.strip_suffix(file)
            && pairs
                .iter()
                .all(|(text, file)| text.strip_prefix(less) == Some(file))
        {
            return Some(Self::Less(less));
        }
        Self::steps(pairs)
    }

    fn steps(mut pairs: Vec<Pair<'a>>) -> Option<Self> {
        pairs.sort_by_key(|(text, _)| text.len());
        let least = *pairs.first()?;
        let mut steps = vec![unit(least)];
        for (text, file) in &pairs[1..] {
            // A line that is deeper in the text must be deeper in the file.
            let step = (text.strip_prefix(least.0)?, file.strip_prefix(least.1)?);
            if step.1.is_empty() {
                return None;
            }
            steps.push(step);
        }
        // An empty step would match again and again.
        steps.retain(|(text, _)| !text.is_empty());
        steps.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Some(Self::Steps(least, steps))
    }

    /// Returns a line of the new text with the indentation that it needs in the file.
    pub(super) fn apply(&self, line: &[u8]) -> Vec<u8> {
        let text = lines::trim_start(line);
        if text.is_empty() {
            return line.to_vec();
        }
        let mut rest = lines::indent(line);
        let mut shifted = Vec::with_capacity(line.len() + 16);
        match self {
            Self::More(more) => shifted.extend_from_slice(more),
            Self::Less(less) => rest = rest.strip_prefix(*less).unwrap_or(rest),
            Self::Steps((least, file), steps) => {
                if let Some(deeper) = rest.strip_prefix(*least) {
                    shifted.extend_from_slice(file);
                    rest = deeper;
                }
                while let Some((step, file)) = steps.iter().find(|(step, _)| rest.starts_with(step))
                {
                    shifted.extend_from_slice(file);
                    rest = &rest[step.len()..];
                }
            }
        }
        shifted.extend_from_slice(rest);
        shifted.extend_from_slice(text);
        shifted
    }
}

/// Returns one step, if a number of spaces in the one is a number of tabs in the other.
fn unit<'a>((text, file): Pair<'a>) -> Pair<'a> {
    let all = |bytes: &[u8], byte| bytes.iter().all(|other| *other == byte);
    let (most, least) = (text.len().max(file.len()), text.len().min(file.len()));
    let even = least > 0 && most % least == 0;
    let mixed = all(text, b' ') && all(file, b'\t') || all(text, b'\t') && all(file, b' ');
    if even && mixed {
        (&text[..text.len() / least], &file[..file.len() / least])
    } else {
        (text, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between<'a>(text: &[&'a str], file: &[&'a str]) -> Option<Shift<'a>> {
        Shift::between(
            text.iter().map(|line| line.as_bytes()),
            file.iter().map(|line| line.as_bytes()),
        )
    }

    #[test]
    fn an_even_shift_goes_both_ways() {
        let more = between(&["a", "  b"], &["    a", "      b"]).unwrap();
        assert_eq!(more.apply(b"    c"), b"        c");
        let less = between(&["    a", "", "      b"], &["a", "", "  b"]).unwrap();
        assert_eq!(less.apply(b"     c"), b" c");
        assert_eq!(less.apply(b"c"), b"c");
    }

    #[test]
    fn tabs_stand_for_spaces() {
        let pairs = between(&["a", "    b"], &["a", "\tb"]).unwrap();
        assert_eq!(pairs.apply(b"        c"), b"\t\tc");
        assert_eq!(pairs.apply(b"c"), b"c");
        let deep = between(&["        a"], &["\t\ta"]).unwrap();
        assert_eq!(deep.apply(b"            c"), b"\t\t\tc");
        assert_eq!(deep.apply(b"    c"), b"\tc");
    }

    #[test]
    fn what_is_not_the_same_code_is_no_shift() {
        assert_eq!(between(&["  a", "  b"], &["  a", "    b"]), None);
        assert_eq!(between(&["a", "  b"], &["\t\ta", "\tb"]), None);
    }
}
