//! The names of tools and prompts of many servers for clients, and the marks that lead URIs and tasks back to their servers.
//! A name is never parsed to find its server: there is a map.
//!
//! A name depends only on the configuration and on the server's own name of an item, and not on the items or the timing of
//! other servers. So no server can take the name of another server's tool.

use std::collections::{BTreeSet, HashMap};

use crate::limits::{NAME_BYTES, PREFIX_BYTES};

/// The beginnings of the names of all configured servers.
#[derive(Debug, Default)]
pub(crate) struct Prefixes(Vec<String>);

impl Prefixes {
    pub(crate) fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        Self(heads.into_iter().map(ToOwned::to_owned).collect())
    }

    /// Returns the server that a name belongs to: the one with the longest prefix that the name carries, else the one
    /// without a prefix.
    pub(crate) fn owner(&self, name: &str) -> &str {
        let carried = self.0.iter().filter(|head| {
            let rest = name.strip_prefix(head.as_str());
            !head.is_empty() && rest.is_some_and(|rest| rest.starts_with("__"))
        });
        carried
            .max_by_key(|head| head.len())
            .map_or("", String::as_str)
    }
}

/// The names of tools and of prompts. A tool and a prompt may share a name, for clients and for their server.
#[derive(Debug)]
pub(crate) struct AllNames<'a> {
    pub(crate) tools: Names<'a>,
    pub(crate) prompts: Names<'a>,
}

impl<'a> AllNames<'a> {
    pub(crate) fn new(prefixes: &'a Prefixes) -> Self {
        Self {
            tools: Names::new(prefixes),
            prompts: Names::new(prefixes),
        }
    }
}

/// The names of one list.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    prefixes: &'a Prefixes,
    given: HashMap<Own, String>,
    /// A name can be taken twice only by items of one server.
    taken: BTreeSet<String>,
}

/// A server, and the name that the server has for one of its items.
type Own = (String, String);

impl<'a> Names<'a> {
    fn new(prefixes: &'a Prefixes) -> Self {
        Self {
            prefixes,
            given: HashMap::new(),
            taken: BTreeSet::new(),
        }
    }

    /// Returns the name of an item for clients: `prefix__label`, where the prefix is the [`head`] of the server. `own` is
    /// the server's name for the item, `label` the wanted name.
    pub(crate) fn give(&mut self, server: &str, own: &str, label: &str) -> String {
        // The same item with another label is another item to clients.
        let key = (server.to_owned(), format!("{own}\0{label}"));
        if let Some(name) = self.given.get(&key) {
            return name.clone();
        }
        let mut name = name(self.prefixes, server, own, label);
        for salt in 1_u32.. {
            if !self.taken.contains(&name) {
                break;
            }
            name = unmistakable(server, label, &format!("{server}\0{own}\0{salt}"));
        }
        self.taken.insert(name.clone());
        self.given.insert(key, name.clone());
        name
    }
}

/// Returns a name that belongs to its server.
fn name(prefixes: &Prefixes, server: &str, own: &str, label: &str) -> String {
    let whole = joined(server, label);
    let is_clear = !server.contains("__") && !server.ends_with('_');
    let is_plain = plain(&whole) == whole && whole.len() <= NAME_BYTES && is_clear;
    let stands_for = format!("{server}\0{own}");
    // With an empty prefix the operator wants the names unchanged.
    let usual = match server.is_empty() || is_plain {
        true => whole,
        false => hashed(&plain(&whole), &stands_for),
    };
    match prefixes.owner(&usual) == server {
        true => usual,
        false => unmistakable(server, label, &stands_for),
    }
}

fn joined(server: &str, label: &str) -> String {
    match server.is_empty() {
        true => label.to_owned(),
        false => format!("{server}__{label}"),
    }
}

/// Returns a name that carries only the prefix of its server: after the prefix, no two `_` stand together.
fn unmistakable(server: &str, label: &str, stands_for: &str) -> String {
    let label = plain(label);
    let words: Vec<_> = label.split('_').filter(|word| !word.is_empty()).collect();
    let label = match words.is_empty() {
        true => "x".to_owned(),
        false => words.join("_"),
    };
    hashed(&joined(server, &label), stands_for)
}

/// Returns the beginning of all names of a server with this prefix. It is short, so that a part of the label fits into each
/// name.
pub(crate) fn head(prefix: &str) -> String {
    let plain = plain(prefix);
    if plain == prefix && plain.len() <= PREFIX_BYTES {
        return plain;
    }
    cut(&plain, PREFIX_BYTES, prefix)
}

/// Replaces all characters except letters, digits, `_` and `-`: some clients drop tools with other names.
fn plain(text: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    text.chars()
        .map(|letter| if allowed(letter) { letter } else { '_' })
        .collect()
}

/// Cuts a name, and adds a hash of the whole.
fn hashed(plain: &str, whole: &str) -> String {
    cut(plain, NAME_BYTES, whole)
}

fn cut(plain: &str, most: usize, whole: &str) -> String {
    let head = plain.get(..most - 7).unwrap_or(plain);
    let sum = fnv(whole) & 0x00ff_ffff;
    format!("{head}_{sum:06x}")
}

/// Returns the FNV-1a hash: the same in every run and on every machine.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the beginning of URIs and ids of a server for clients. `server+file:///x` is a URI that leads back, and people
/// can read it. The slug has only small letters, digits and `-`, because some clients parse URIs and write their schemes in
/// this way.
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

/// Turns a URI or an id of a server into the form that clients get.
pub(crate) fn marked(slug: &str, own: &str) -> String {
    match is_to_be_marked(slug, own.as_bytes()) {
        true => mark(slug) + own,
        false => own.to_owned(),
    }
}

/// Returns whether a URI or an id of the server with this slug gets a mark in front. URIs of the server without a slug stay
/// as they are, unless they look as if they belong to another server, whether that server exists or not.
pub(crate) fn is_to_be_marked(slug: &str, own: &[u8]) -> bool {
    !slug.is_empty() || looks_marked(own)
}

fn looks_marked(own: &[u8]) -> bool {
    let Some(plus) = own.iter().position(|byte| *byte == b'+') else {
        return false;
    };
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    own[..plus].iter().all(allowed) || own[..plus].eq_ignore_ascii_case(NAMELESS.as_bytes())
}

/// Returns the mark in front of URIs and ids.
pub(crate) fn mark(slug: &str) -> String {
    match slug.is_empty() {
        true => format!("{NAMELESS}+"),
        false => format!("{slug}+"),
    }
}

/// Splits a marked URI or id into the slug and the server's own form.
pub(crate) fn unmarked(marked: &str) -> Option<(String, &str)> {
    let (slug, own) = marked.split_once('+')?;
    let slug = slug.to_ascii_lowercase();
    Some(match slug == NAMELESS {
        true => (String::new(), own),
        false => (slug, own),
    })
}

/// Stands for the server without a slug. A scheme may have a dot in it, a slug never has one.
const NAMELESS: &str = "own.";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of an item in a hub with these servers. Another server may have given any names before.
    fn named(servers: &[&str], server: &str, own: &str) -> String {
        let heads: Vec<_> = servers.iter().map(|server| head(server)).collect();
        let prefixes = Prefixes::new(heads.iter().map(String::as_str));
        Names::new(&prefixes).give(&head(server), own, own)
    }

    #[test]
    fn a_plain_name_is_the_server_and_the_tool() {
        let prefixes = Prefixes::new(["git"]);
        let mut names = Names::new(&prefixes);
        assert_eq!(names.give("git", "log", "log"), "git__log");
        assert_eq!(names.give("git", "log", "log"), "git__log");
        assert_eq!(names.give("git", "status", "state"), "git__state");
    }

    #[test]
    fn what_clients_do_not_take_is_replaced_and_cut_and_stays_apart() {
        let (long, longest) = ("a".repeat(50), "s".repeat(60));
        let longer = format!("{long}b");
        let servers = ["git", "gït", "g_t", "a", "a__b", "a_", &longest];
        let all = [
            ("git", "log.all"),
            ("git", "log/all"),
            ("git", "log_all"),
            ("git", &long),
            ("git", &longer),
            ("gït", "x"),
            ("g_t", "x"),
            ("a", "b__c"),
            ("a__b", "c"),
            ("a_", "b"),
            ("a", "_b"),
            (&longest, "x"),
        ]
        .map(|(server, own)| named(&servers, server, own));
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        for name in &all {
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            assert!(name.len() <= 40 && name.chars().all(allowed), "{name}");
        }
        assert_eq!(all[2], "git__log_all");
    }

    #[test]
    fn whatever_a_server_calls_its_tools_the_names_are_its_own() {
        let servers = [
            "", "a", "a_", "a__b", "a__b_", "a__b__c", "good", "g", "gööd",
        ];
        let heads = servers.map(head);
        let prefixes = Prefixes::new(heads.iter().map(String::as_str));
        let rightful = servers.map(|server| named(&servers, server, "x"));
        let parts = ["_", "__", "b", "c", "a__b", "good", "x", "_x", "x_", "é"];
        let mut labels: Vec<_> = rightful.to_vec();
        for first in parts {
            labels.extend(parts.map(|second| format!("{first}{second}")));
            labels.extend(parts.map(|second| format!("{first}__{second}")));
            labels.extend(rightful.iter().filter_map(|name| {
                name.split_once("__")
                    .map(|(_, rest)| format!("{first}{rest}"))
            }));
        }
        let mut all = HashMap::new();
        for server in &heads {
            for label in &labels {
                let name = Names::new(&prefixes).give(server, label, label);
                assert_eq!(prefixes.owner(&name), server, "{name} of {server}/{label}");
                let other = all.insert(name.clone(), server);
                assert!(other.is_none_or(|other| other == server), "{name}");
            }
        }
    }

    #[test]
    fn the_prefix_of_another_server_is_never_that_of_a_name() {
        assert_eq!(named(&["", "good"], "good", "x"), "good__x");
        let taken = named(&["", "good"], "", "good__x");
        assert!(taken.starts_with("good_x_"), "{taken}");
        assert_eq!(named(&["", "good"], "", "bad__x"), "bad__x");
        let taken = named(&["a", "a__b"], "a", "b__c_4451f9");
        assert!(taken.starts_with("a__b_c_4451f9_"), "{taken}");
        assert_eq!(named(&["a", "a__b"], "a__b", "c"), "a__b__c_4451f9");
    }

    #[test]
    fn a_tool_with_the_label_of_another_gets_a_name_of_its_own() {
        let prefixes = Prefixes::new(["git"]);
        let mut names = Names::new(&prefixes);
        let one = names.give("git", "show", "log");
        let other = names.give("git", "log", "log");
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
        let long = "a.b".repeat(20);
        assert_eq!(named(&["", "git"], "", "log"), "log");
        assert_eq!(named(&["", "git"], "", &long), long);
        assert_eq!(marked(&slug(""), "file:///a"), "file:///a");
    }

    /// Without a mark, the link would lead to another server, and look as if that server had made it.
    #[test]
    fn without_a_prefix_no_uri_is_that_of_another_server() {
        for own in [
            "good+mem://a",
            "GOOD+mem://a",
            "git+https://x",
            "s-a-1f+x:y",
            "own.+a:b",
            "+a",
        ] {
            let shown = marked("", own);
            assert_eq!(shown, format!("own.+{own}"));
            assert_eq!(unmarked(&shown), Some((String::new(), own)));
        }
        for own in ["file:///a+b", "a.b+c:d", "mem://good/a", "", "x:y"] {
            assert_eq!(marked("", own), own);
        }
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
