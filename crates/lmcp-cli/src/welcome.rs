//! The messages when the server listens: a line for each listener, and more on a terminal.

use std::io::{IsTerminal as _, stderr};

use lmcp::http::Http;

use crate::{options::Options, report};

/// Writes where the server listens; on a terminal also how to connect, and the restrictions.
pub(crate) fn say(
    options: &Options,
    http: Option<&Http>,
    unix: Option<&std::path::Path>,
    enforced: &[String],
) {
    if let Some(http) = http {
        report::note(&format!("listening on {}", http.url()));
    }
    if let Some(path) = unix {
        report::note(&format!("listening on {}", path.display()));
    }
    if http.is_some() && !options.has_token() {
        report::note(who_may_connect(options));
    }
    if !stderr().is_terminal() {
        confine(options, enforced);
        return;
    }
    if let Some(http) = http {
        report::note(&connect(
            options.name(),
            &url(http),
            token(options).as_deref(),
        ));
    }
    for line in enforced {
        report::note(&format!("- {line}"));
    }
    report::note("\nCtrl-C stops it, a second one at once.");
}

/// Returns who is served over HTTP by a server without tokens.
fn who_may_connect(options: &Options) -> &'static str {
    if options.allow_remote == Some(true) {
        "no token is asked for: whoever can reach this address is served"
    } else if options.any_local_user == Some(true) {
        "no token is asked for: every user of this machine is served"
    } else {
        "no token is asked for: you and root are served, other users of this machine are not"
    }
}

/// Writes the restrictions, if the operator asked for any.
pub(crate) fn confine(options: &Options, enforced: &[String]) {
    let asked = !options.root.is_empty() || options.read_only == Some(true);
    if asked && options.demo != Some(true) {
        report::note(&enforced.join("; "));
    }
}

/// Returns the URL for clients: 0.0.0.0 is not an address that a client can use.
fn url(http: &Http) -> String {
    if http.address().ip().is_unspecified() {
        return format!("http://THIS-MACHINE:{}/mcp", http.address().port());
    }
    http.url()
}

/// Returns how a client's shell gets the token, if there is one.
fn token(options: &Options) -> Option<String> {
    if !options.has_token() {
        return None;
    }
    Some(match &options.token_file {
        Some(path) => format!("$(cat '{}')", path.display()),
        None => "$LMCP_TOKEN".to_owned(),
    })
}

fn connect(name: &str, url: &str, token: Option<&str>) -> String {
    let (option, member) = match token {
        Some(token) => (
            format!(" \\\n    --header \"Authorization: Bearer {token}\""),
            r#", "headers": { "Authorization": "Bearer TOKEN" }"#,
        ),
        None => (String::new(), ""),
    };
    // The name may contain any character, but only some are safe on a command line.
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let word = if name.chars().all(plain) {
        name
    } else {
        "lmcp"
    };
    format!(
        "\nClaude Code:\n  claude mcp add --transport http {word} {url}{option}\n\
         Others, in their JSON:\n  {{ \"mcpServers\": {{ \"{word}\": {{ \"type\": \"http\", \"url\": \"{url}\"{member} }} }} }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_in_is_shown_with_the_token_but_not_the_token_itself() {
        let open = connect("lmcp", "http://127.0.0.1:8080/mcp", None);
        assert!(
            open.contains("claude mcp add --transport http lmcp http://127.0.0.1:8080/mcp\n"),
            "{open}"
        );
        let closed = connect("my tools", "http://[::1]:1/mcp", Some("$LMCP_TOKEN"));
        assert!(closed.contains(r#"--header "Authorization: Bearer $LMCP_TOKEN""#));
        assert!(closed.contains("http lmcp http://[::1]:1/mcp"), "{closed}");
        let json = closed.lines().find(|line| line.contains("mcpServers"));
        let json: serde_json::Value = serde_json::from_str(json.unwrap()).unwrap();
        let headers = &json["mcpServers"]["lmcp"]["headers"];
        assert_eq!(headers["Authorization"], "Bearer TOKEN");
    }
}
