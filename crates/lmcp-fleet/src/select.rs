//! Which hosts the argument `host` means: a name, a list, a glob, `@group`, `@all`. No I/O.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::limits::{NAMED, NEAR, TERM_BYTES, TERMS};

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// One host, by its name: its answer is the answer.
    One(String),
    /// Some, however many that are: their answers are put together.
    Several(Vec<String>),
}

/// A host, as far as choosing is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) name: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) is_disabled: bool,
    /// It has hosts of its own, which are called `NAME/…`.
    pub(crate) is_hub: bool,
}

/// The hosts that are meant, in the order of their names.
pub(crate) fn select(wanted: &Value, hosts: &[Choice<'_>]) -> Result<Selected, String> {
    let terms = terms(wanted)?;
    if let [term] = &terms[..]
        && (!is_open(term) || is_within(term))
    {
        expect_usable(term, hosts)?;
        return Ok(Selected::One((*term).to_owned()));
    }
    let mut chosen = BTreeSet::new();
    for term in terms {
        let usable = hosts.iter().filter(|host| !host.is_disabled);
        let meant = usable.filter(|host| means(term, host));
        let mut meant: Vec<_> = meant.map(|host| host.name).collect();
        if !is_open(term) || is_within(term) {
            expect_usable(term, hosts)?;
            meant = vec![term];
        } else if meant.is_empty() {
            return Err(nothing(term, hosts));
        }
        chosen.extend(meant);
    }
    Ok(Selected::Several(
        chosen.into_iter().map(str::to_owned).collect(),
    ))
}

/// Is this host one of those that a word stands for?
pub(crate) fn means(term: &str, host: &Choice<'_>) -> bool {
    match term.strip_prefix('@') {
        Some("all") => true,
        Some(group) => host.groups.iter().any(|its| its == group),
        None => fits(term, host.name),
    }
}

/// The words that name hosts: one text with commas, or a list of texts.
fn terms(wanted: &Value) -> Result<Vec<&str>, String> {
    let texts: Vec<_> = match wanted {
        Value::String(text) => vec![text.as_str()],
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect()
        }
        Value::Null => return Err("`host` is missing: name a host".to_owned()),
        _ => return Err("`host` is a text, or a list of texts".to_owned()),
    };
    let terms = texts.into_iter().flat_map(|text| text.split(','));
    let terms: Vec<_> = terms
        .map(str::trim)
        .filter(|term| !term.is_empty())
        .collect();
    // Each is compared with the name of every host.
    if terms.iter().any(|term| term.len() > TERM_BYTES) {
        return Err(format!("a name in `host` has at most {TERM_BYTES} bytes"));
    }
    match terms.len() {
        0 => Err("`host` names no host".to_owned()),
        1..=TERMS => Ok(terms),
        _ => Err(format!(
            "`host` has more than {TERMS} names: a glob or a group says more at once"
        )),
    }
}

/// May it stand for any number of hosts?
fn is_open(term: &str) -> bool {
    term.starts_with('@') || term.contains(['*', '?'])
}

/// Does it mean hosts of a hub? What it means there, the hub says.
fn is_within(term: &str) -> bool {
    let outer = term.split_once('/').map(|(outer, _)| outer);
    outer.is_some_and(|outer| !is_open(outer))
}

fn expect_usable(term: &str, hosts: &[Choice<'_>]) -> Result<(), String> {
    let (name, inner) = match term.split_once('/') {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (term, None),
    };
    match hosts.iter().find(|host| host.name == name) {
        Some(host) if inner.is_some() && !host.is_hub => Err(format!(
            "host `{name}` is no hub, and has no hosts of its own"
        )),
        Some(_) if inner == Some("") => Err(format!("`{term}` names no host of the hub `{name}`")),
        Some(host) if host.is_disabled => {
            Err(format!("host `{name}` is disabled in the file of the hub"))
        }
        Some(_) => Ok(()),
        None => Err(unknown(name, hosts)),
    }
}

fn unknown(name: &str, hosts: &[Choice<'_>]) -> String {
    let mut near: Vec<_> = hosts
        .iter()
        .map(|host| (distance(name, host.name), host.name))
        .filter(|(distance, known)| *distance <= (name.len() / 3).max(2) || known.contains(name))
        .collect();
    near.sort_unstable();
    let near: Vec<_> = near.iter().take(NEAR).map(|(_, name)| *name).collect();
    match near.is_empty() {
        true => format!("there is no host `{name}`; {}", known(hosts)),
        false => format!(
            "there is no host `{name}`; did you mean {}?",
            near.join(", ")
        ),
    }
}

fn nothing(term: &str, hosts: &[Choice<'_>]) -> String {
    let words = match term.starts_with('@') {
        true => format!("no host is in the group `{term}`"),
        false => format!("no host fits `{term}`"),
    };
    format!("{words}; {}", known(hosts))
}

/// The names that can be said: all hosts of a small fleet, else the groups.
pub(crate) fn known(hosts: &[Choice<'_>]) -> String {
    let usable = hosts.iter().filter(|host| !host.is_disabled);
    let groups: BTreeSet<_> = usable.clone().flat_map(|host| host.groups).collect();
    let groups: Vec<_> = groups
        .into_iter()
        .map(|group| format!("@{group}"))
        .collect();
    let names = usable.map(|host| match host.is_hub {
        true => format!("{}/…", host.name),
        false => host.name.to_owned(),
    });
    let names: Vec<_> = names.collect();
    let mut words = match names.len() {
        0 => "there are no hosts".to_owned(),
        1..=NAMED => format!("hosts: {}", names.join(", ")),
        count => format!("there are {count} hosts, which remote_list_hosts names"),
    };
    if !groups.is_empty() {
        words = format!("{words}; groups: {}", groups.join(", "));
    }
    words
}

/// Does a name fit a glob? `*` is any text, `?` any letter.
fn fits(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last star stands, and where the text that it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[place] => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((starred, end)) => {
                    star = Some((starred, end + 1));
                    at = starred + 1;
                    place = end + 1;
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|letter| *letter == '*')
}

/// How many letters are to be changed, added or left out to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().take(64).enumerate() {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chosen(wanted: &Value) -> Result<Selected, String> {
        let web = ["web".to_owned(), "eu".to_owned()];
        let host = |name, groups, is_disabled| Choice {
            name,
            groups,
            is_disabled,
            is_hub: name == "far",
        };
        let hosts = [
            host("db1", &web[1..], false),
            host("far", &web[..0], false),
            host("old", &web[..], true),
            host("web1", &web[..], false),
            host("web2", &web[..1], false),
        ];
        select(wanted, &hosts)
    }

    #[test]
    fn a_glob_that_is_longer_than_any_name_is_refused_without_being_compared() {
        let refused = chosen(&json!("*".repeat(250_000))).unwrap_err();
        assert_eq!(refused, "a name in `host` has at most 512 bytes");
        assert!(chosen(&json!(format!("{}1", "*".repeat(500)))).is_ok());
    }

    #[test]
    fn a_name_is_one_host_and_all_else_is_several() {
        assert_eq!(chosen(&json!("web1")), Ok(Selected::One("web1".into())));
        assert_eq!(chosen(&json!(["web1"])), Ok(Selected::One("web1".into())));
        for within in ["far", "far/x", "far/x*", "far/@web", "far/further/x"] {
            assert_eq!(chosen(&json!(within)), Ok(Selected::One(within.into())));
        }
        for (wanted, expected) in [
            (json!("web2, web1,"), vec!["web1", "web2"]),
            (json!(["web1", "db1", "web1"]), vec!["db1", "web1"]),
            (json!("@web"), vec!["web1", "web2"]),
            (json!("@eu"), vec!["db1", "web1"]),
            (json!("@all"), vec!["db1", "far", "web1", "web2"]),
            (json!("far/@web, web1"), vec!["far/@web", "web1"]),
            (json!("web*"), vec!["web1", "web2"]),
            (json!("?b?"), vec!["db1"]),
            (json!(["w*1", "db1"]), vec!["db1", "web1"]),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(chosen(&wanted), Ok(Selected::Several(expected)), "{wanted}");
        }
    }

    #[test]
    fn what_means_no_host_is_told_with_what_would() {
        for (wanted, words) in [
            (json!("wbe1"), "web1?"),
            (
                json!("zzz"),
                "hosts: db1, far/…, web1, web2; groups: @eu, @web",
            ),
            (json!("web1/x"), "is no hub"),
            (json!("far/"), "names no host"),
            (json!("fat/x"), "did you mean far?"),
            (json!("old"), "is disabled"),
            (json!("web1,old"), "is disabled"),
            (json!("@nobody"), "no host is in the group `@nobody`"),
            (json!("x*"), "no host fits `x*`"),
            (json!(" , "), "names no host"),
            (json!(null), "`host` is missing"),
            (json!(7), "is a text"),
            (json!("far/x,".repeat(TERMS + 1)), "more than 1024 names"),
        ] {
            let said = chosen(&wanted).unwrap_err();
            assert!(said.contains(words), "{wanted}: {said}");
        }
    }

    #[test]
    fn a_glob_is_matched_whole() {
        for (glob, name, is_fit) in [
            ("*", "", true),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "aXbYb", false),
            ("web?", "web", false),
            ("web", "web1", false),
            ("*1*", "web12", true),
        ] {
            assert_eq!(fits(glob, name), is_fit, "{glob} {name}");
        }
    }
}
