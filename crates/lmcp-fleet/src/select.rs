//! Finds the hosts that the argument `host` means: a name, a list, a glob, `@group`, `@all`. No I/O.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::{
    glob::Letters,
    limits::{GLOB_BYTES, GLOBS, NAMED, TERM_BYTES, TERMS},
    near::near,
};

/// The hosts that a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// One host, by its name: its answer is the result of the call.
    One(String),
    /// A list of hosts, also if only one host fits: their answers are put together.
    Several(Vec<String>),
}

/// The properties of a host that matter for the selection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) name: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) is_disabled: bool,
    /// The host has hosts of its own, whose names are `NAME/…`.
    pub(crate) is_hub: bool,
}

/// Returns the selected hosts, in the order of their names. The hosts to choose from are in this order, too.
///
/// Names are looked up before any glob is compared, so a wrong name costs next to nothing.
pub(crate) fn select(wanted: &Value, hosts: &[Choice<'_>]) -> Result<Selected, String> {
    debug_assert!(hosts.is_sorted_by_key(|host| host.name));
    let terms = terms(wanted)?;
    let (open, named): (Vec<&str>, Vec<&str>) = terms
        .distinct
        .into_iter()
        .partition(|term| is_open(term) && !is_within(term));
    for term in &named {
        expect_usable(term, hosts)?;
    }
    if let ([term], true) = (&named[..], terms.is_single) {
        return Ok(Selected::One((*term).to_owned()));
    }
    let mut chosen: BTreeSet<&str> = named.into_iter().collect();
    let meant = Meant::of(open.iter().copied());
    let mut is_met = vec![false; open.len()];
    for host in hosts.iter().filter(|host| !host.is_disabled) {
        meant.meet(host, |at| {
            is_met[at] = true;
            chosen.insert(host.name);
        });
    }
    if let Some(at) = is_met.iter().position(|is_met| !is_met) {
        return Err(nothing(open[at], hosts));
    }
    Ok(Selected::Several(
        chosen.into_iter().map(str::to_owned).collect(),
    ))
}

/// Words that mean hosts, ready to be compared with many hosts: names and groups are looked up.
#[derive(Debug, Default)]
pub(crate) struct Meant<'a> {
    /// Each word, with its place among the words.
    names: HashMap<&'a str, usize>,
    /// The same without the `@`.
    groups: HashMap<&'a str, usize>,
    globs: Vec<(&'a str, usize)>,
}

impl<'a> Meant<'a> {
    pub(crate) fn of(terms: impl IntoIterator<Item = &'a str>) -> Self {
        let mut meant = Self::default();
        for (at, term) in terms.into_iter().enumerate() {
            match term.strip_prefix('@') {
                Some(group) => drop(meant.groups.insert(group, at)),
                None if is_open(term) => meant.globs.push((term, at)),
                None => drop(meant.names.insert(term, at)),
            }
        }
        meant
    }

    /// Returns whether one of the words means this host.
    pub(crate) fn is(&self, host: &Choice<'_>) -> bool {
        let mut is_meant = false;
        self.meet(host, |_| is_meant = true);
        is_meant
    }

    /// Calls a function with the place of each word that means this host.
    fn meet(&self, host: &Choice<'_>, mut hear: impl FnMut(usize)) {
        let groups = ["all"].into_iter();
        let groups = groups.chain(host.groups.iter().map(String::as_str));
        let groups = groups.filter_map(|group| self.groups.get(group));
        groups
            .chain(self.names.get(host.name))
            .for_each(|at| hear(*at));
        let letters = match self.globs.is_empty() {
            true => None,
            false => Letters::of(host.name),
        };
        if let Some(letters) = letters {
            let globs = self.globs.iter().filter(|(glob, _)| letters.fit(glob));
            globs.for_each(|(_, at)| hear(*at));
        }
    }
}

/// The words of `host`.
struct Terms<'a> {
    /// Each of them once, in their order.
    distinct: Vec<&'a str>,
    /// There is one word, and it is written once.
    is_single: bool,
}

/// Returns the words that name hosts: one text with commas, or a list of texts.
fn terms(wanted: &Value) -> Result<Terms<'_>, String> {
    let texts: Vec<_> = match wanted {
        Value::String(text) => vec![text.as_str()],
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect()
        }
        Value::Null => return Err("`host` is missing: name a host".to_owned()),
        _ => return Err("`host` is a text, or a list of texts".to_owned()),
    };
    let terms = texts.into_iter().flat_map(|text| text.split(','));
    let terms = terms.map(str::trim).filter(|term| !term.is_empty());
    let (mut distinct, mut known) = (Vec::new(), HashSet::new());
    let (mut globs, mut glob_bytes) = (0, 0);
    let mut count = 0;
    for term in terms {
        count += 1;
        if count > TERMS {
            return Err(format!(
                "`host` has more than {TERMS} names: a glob or a group says more at once"
            ));
        }
        if term.len() > TERM_BYTES {
            return Err(format!("a name in `host` has at most {TERM_BYTES} bytes"));
        }
        if !known.insert(term) {
            continue;
        }
        distinct.push(term);
        // Each glob is compared with the name of every host.
        if term.contains(STARS) {
            globs += 1;
            glob_bytes += term.len();
        }
        if globs > GLOBS || glob_bytes > GLOB_BYTES {
            return Err(format!(
                "`host` has at most {GLOBS} globs, of {GLOB_BYTES} bytes together: a group says more at once"
            ));
        }
    }
    match count {
        0 => Err("`host` names no host".to_owned()),
        _ => Ok(Terms {
            distinct,
            is_single: count == 1,
        }),
    }
}

/// The characters that make a word a glob.
const STARS: [char; 2] = ['*', '?'];

/// Returns whether a word may mean any number of hosts.
fn is_open(term: &str) -> bool {
    term.starts_with('@') || term.contains(STARS)
}

/// Returns whether a word means hosts of a hub. The hub decides what the rest means there.
fn is_within(term: &str) -> bool {
    let outer = term.split_once('/').map(|(outer, _)| outer);
    outer.is_some_and(|outer| !is_open(outer))
}

fn expect_usable(term: &str, hosts: &[Choice<'_>]) -> Result<(), String> {
    let (name, inner) = match term.split_once('/') {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (term, None),
    };
    let found = hosts.binary_search_by_key(&name, |host| host.name);
    match found.ok().and_then(|at| hosts.get(at)) {
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
    let near = near(name, hosts.iter().map(|host| host.name));
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

/// Returns the names for an error or a description: all hosts of a small fleet, else the groups.
pub(crate) fn known(hosts: &[Choice<'_>]) -> String {
    let usable = hosts.iter().filter(|host| !host.is_disabled);
    let groups: BTreeSet<_> = usable.clone().flat_map(|host| host.groups).collect();
    let groups: Vec<_> = groups
        .into_iter()
        .map(|group| format!("@{group}"))
        .collect();
    let names = usable.clone().map(|host| match host.is_hub {
        true => format!("{}/…", host.name),
        false => host.name.to_owned(),
    });
    let mut words = match usable.count() {
        0 => "there are no hosts".to_owned(),
        1..=NAMED => format!("hosts: {}", names.collect::<Vec<_>>().join(", ")),
        count => format!("there are {count} hosts, which remote_list_hosts names"),
    };
    if !groups.is_empty() {
        words = format!("{words}; groups: {}", groups.join(", "));
    }
    words
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
    fn what_is_compared_with_every_host_is_bounded() {
        let globs =
            |count: usize| json!((0..count).map(|at| format!("*{at}*")).collect::<Vec<_>>());
        let refused =
            "`host` has at most 64 globs, of 1024 bytes together: a group says more at once";
        assert_eq!(chosen(&globs(GLOBS + 1)), Err(refused.to_owned()));
        let long = |count: usize| vec![format!("{}1", "*".repeat(500)); count];
        let mut lengthened = long(1);
        lengthened.extend(["?".repeat(400), "*?".repeat(200)]);
        assert_eq!(chosen(&json!(lengthened)), Err(refused.to_owned()));
        // What a hub among the hosts is to compare counts, too.
        let within: Vec<_> = (0..=GLOBS).map(|at| format!("far/x{at}*")).collect();
        assert_eq!(chosen(&json!(within)), Err(refused.to_owned()));
        // Equal words are one.
        let web1 = Selected::Several(vec!["web1".to_owned()]);
        assert_eq!(chosen(&json!(long(TERMS))), chosen(&json!(long(2))));
        assert_eq!(chosen(&json!(vec!["w*1"; TERMS])), Ok(web1.clone()));
        assert_eq!(chosen(&json!("web1,web1")), Ok(web1));
    }

    #[test]
    fn a_wrong_name_is_found_before_any_glob_is_compared() {
        for wanted in ["x*,wbe1", "wbe1,x*", "@nobody,wbe1"] {
            let refused = chosen(&json!(wanted)).unwrap_err();
            assert_eq!(refused, "there is no host `wbe1`; did you mean db1, web1?");
        }
    }
}
