//! What tools and prompts of many servers are called, and how URIs and tasks lead back to theirs. No name is ever taken
//! apart to find its server: there is a map.

use std::collections::{BTreeSet, HashMap};

use crate::limits::NAME_BYTES;

/// What is called something. A tool and a prompt may share a name, for clients as for their server.
#[derive(Debug, Default)]
pub(crate) struct AllNames {
    pub(crate) tools: Names,
    pub(crate) prompts: Names,
}

/// The names that were given. One that was given stays: nobody else gets it, and its owner gets no other.
#[derive(Debug, Default)]
pub(crate) struct Names {
    given: HashMap<Own, String>,
    taken: BTreeSet<String>,
}

/// A server, and the name that it has for one of its things.
type Own = (String, String);

impl Names {
    /// The name of something for clients: `prefix__label`, where all servers have different prefixes and at most one has none.
    /// `own` is what the server calls it, `label` what it is to be called.
    pub(crate) fn give(&mut self, server: &str, own: &str, label: &str) -> String {
        // With another label it is another thing to clients.
        let key = (server.to_owned(), format!("{own}\0{label}"));
        if let Some(name) = self.given.get(&key) {
            return name.clone();
        }
        let mut name = name(server, own, label);
        for salt in 1_u32.. {
            if !self.taken.contains(&name) {
                break;
            }
            name = hashed(&plain(server, label), &format!("{server}\0{own}\0{salt}"));
        }
        self.taken.insert(name.clone());
        self.given.insert(key, name.clone());
        name
    }
}

/// Depends on nobody else's tools. Two plain names are never the same: the first `__` ends the server's.
fn name(server: &str, own: &str, label: &str) -> String {
    // Whoever asks for names as they are gets them so.
    if server.is_empty() {
        return label.to_owned();
    }
    let whole = format!("{server}__{label}");
    let plain = plain(server, label);
    let is_clear = !server.contains("__") && !server.ends_with('_');
    if plain == whole && plain.len() <= NAME_BYTES && is_clear {
        return plain;
    }
    hashed(&plain, &format!("{server}\0{own}"))
}

/// With nothing but letters, digits, `_` and `-`: some clients drop all others.
fn plain(server: &str, label: &str) -> String {
    let between = if server.is_empty() { "" } else { "__" };
    let letters = server.chars().chain(between.chars()).chain(label.chars());
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    letters
        .map(|letter| if allowed(letter) { letter } else { '_' })
        .collect()
}

/// Cut short, with a hash of what it stands for.
fn hashed(plain: &str, whole: &str) -> String {
    let head = plain.get(..NAME_BYTES - 7).unwrap_or(plain);
    let sum = fnv(whole) & 0x00ff_ffff;
    format!("{head}_{sum:06x}")
}

/// FNV-1a: the same in every run and on every machine.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What URIs and ids of a server begin with for clients: `server+file:///x` is a URI that leads back, and people can
/// read it. Small letters, digits and `-`, because some clients parse URIs and write their schemes so.
pub(crate) fn slug(server: &str) -> String {
    if server.is_empty() {
        return String::new();
    }
    let small = server.to_ascii_lowercase();
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let plain: String = small
        .chars()
        .map(|letter| if allowed(letter) { letter } else { '-' })
        .collect();
    let begins_well = plain.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if plain == server && begins_well {
        return plain;
    }
    format!("s-{plain}-{:06x}", fnv(server) & 0x00ff_ffff)
}

/// A URI or an id of a server, as clients get it.
pub(crate) fn marked(slug: &str, own: &str) -> String {
    if slug.is_empty() {
        return own.to_owned();
    }
    format!("{slug}+{own}")
}

/// The slug in front, and what the server calls it.
pub(crate) fn unmarked(marked: &str) -> Option<(String, &str)> {
    let (slug, own) = marked.split_once('+')?;
    Some((slug.to_ascii_lowercase(), own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(names: &mut Names, server: &str, own: &str) -> String {
        names.give(server, own, own)
    }

    #[test]
    fn a_plain_name_is_the_server_and_the_tool() {
        let mut names = Names::default();
        assert_eq!(give(&mut names, "git", "log"), "git__log");
        assert_eq!(give(&mut names, "git", "log"), "git__log");
        assert_eq!(names.give("git", "status", "state"), "git__state");
    }

    #[test]
    fn what_clients_do_not_take_is_replaced_and_cut_and_stays_apart() {
        let mut names = Names::default();
        let long = "a".repeat(50);
        let all = [
            give(&mut names, "git", "log.all"),
            give(&mut names, "git", "log/all"),
            give(&mut names, "git", "log_all"),
            give(&mut names, "git", &long),
            give(&mut names, "git", &format!("{long}b")),
            give(&mut names, "gït", "x"),
            give(&mut names, "a", "b__c"),
            give(&mut names, "a__b", "c"),
            give(&mut names, "a_", "b"),
            give(&mut names, "a", "_b"),
        ];
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        for name in &all {
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            assert!(name.len() <= 40 && name.chars().all(allowed), "{name}");
        }
        assert_eq!(all[2], "git__log_all");
    }

    #[test]
    fn a_name_does_not_depend_on_who_came_first() {
        let (mut one, mut other) = (Names::default(), Names::default());
        let first = give(&mut one, "git", "a.b");
        give(&mut other, "git", "a_b");
        give(&mut other, "a__b", "c");
        assert_eq!(give(&mut other, "git", "a.b"), first);
    }

    #[test]
    fn a_tool_with_the_label_of_another_gets_a_name_of_its_own() {
        let mut names = Names::default();
        let one = names.give("git", "show", "log");
        let other = give(&mut names, "git", "log");
        assert_eq!(one, "git__log");
        assert_ne!(other, one);
    }

    #[test]
    fn uris_lead_back() {
        let slug = slug("git");
        assert_eq!(marked(&slug, "file:///a+b"), "git+file:///a+b");
        assert_eq!(unmarked("GIT+file:///a+b"), Some((slug, "file:///a+b")));
        assert_eq!(unmarked("file:///a"), None);
    }

    #[test]
    fn without_a_prefix_names_stay() {
        let mut names = Names::default();
        let long = "a.b".repeat(20);
        assert_eq!(give(&mut names, "", "log"), "log");
        assert_eq!(give(&mut names, "", &long), long);
        assert_eq!(give(&mut names, "git", "log"), "git__log");
        assert_ne!(give(&mut names, "", "git__log"), "git__log");
        assert_eq!(marked(&slug(""), "file:///a"), "file:///a");
    }

    #[test]
    fn slugs_are_schemes_and_differ() {
        let slugs = ["my_server", "my-server", "My-server", "1st", "ä"].map(slug);
        let different: BTreeSet<_> = slugs.iter().collect();
        assert_eq!(different.len(), slugs.len(), "{slugs:?}");
        for slug in &slugs {
            assert!(slug.starts_with(|letter: char| letter.is_ascii_lowercase()));
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            assert!(slug.chars().all(allowed), "{slug}");
        }
    }
}
