//! Hosts that a configuration of ssh names, proposed as tables of ours. No I/O.

use std::fmt::Write as _;

use crate::config::is_name;

/// Returns a table for each host that the text names in full. Patterns and the contents of `Match` blocks are left out.
pub fn propose(text: &str) -> String {
    let mut proposed = String::new();
    let mut seen = Vec::new();
    for line in text.lines() {
        let Some((keyword, rest)) = split(line) else {
            continue;
        };
        if !keyword.eq_ignore_ascii_case("host") {
            continue;
        }
        for alias in rest.split_whitespace().map(|alias| alias.trim_matches('"')) {
            // A text that ssh would read as a pattern or an option is not the name of a host.
            if !is_name(alias) || seen.contains(&alias) {
                continue;
            }
            seen.push(alias);
            let _ = writeln!(proposed, "[hosts.{}]\nssh = \"{alias}\"\n", key(alias));
        }
    }
    proposed
}

/// Splits a line into a keyword and the rest: `Host a b`, or `Host=a`.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let end = line.find(|letter: char| letter.is_whitespace() || letter == '=')?;
    let (keyword, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '=');
    (!keyword.starts_with('#')).then_some((keyword, rest))
}

/// Writes a name as a key of TOML: a dot would begin another table.
fn key(name: &str) -> String {
    match name.contains('.') {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_proposed_and_patterns_are_not() {
        let text = "# Host commented\nHost web web2 *.example !no\n  HostName 10.0.0.1\nhost=db\nHost web\nMatch host x\nHost a.b \"c\" -x\n";
        let hosts: std::collections::BTreeMap<
            String,
            std::collections::BTreeMap<String, crate::HostConfig>,
        > = toml::from_str(&propose(text)).unwrap();
        let names: Vec<_> = hosts["hosts"].keys().map(String::as_str).collect();
        assert_eq!(names, ["a.b", "c", "db", "web", "web2"]);
        assert_eq!(hosts["hosts"]["web"].ssh.as_deref(), Some("web"));
    }
}
