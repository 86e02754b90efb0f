//! Hosts in a file of whitespace columns: name, destination of ssh, URL, token. `-` stands for none, and `#` begins a comment.

use crate::config::{HostConfig, Hosts, Token, expect_named};

/// Reads such a file. The file holds tokens, so the code that opens it must check that only its owner can read it.
///
/// # Errors
/// A line is wrong. The error names the number of the line, and of its content only the name of the host.
pub fn read_registry(text: &str) -> Result<Hosts, String> {
    let mut hosts = Hosts::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let columns: Vec<_> = line.split_whitespace().collect();
        let wrong = |words: String| format!("line {}: {words}", number + 1);
        let [name, ssh, rest @ ..] = &columns[..] else {
            if columns.is_empty() {
                continue;
            }
            let words =
                "a line has a name, a destination of ssh, a URL and a token; `-` stands for none";
            return Err(wrong(words.to_owned()));
        };
        let column = |place: usize| rest.get(place).copied().filter(|text| *text != "-");
        if rest.len() > 2 {
            return Err(wrong(format!("host `{name}` has more than four columns")));
        }
        let host = HostConfig {
            ssh: Some(*ssh).filter(|text| *text != "-").map(str::to_owned),
            url: column(0).map(str::to_owned),
            token: column(1).map(Token::new),
            ..HostConfig::new()
        };
        host.expect_sound()
            .map_err(|words| wrong(format!("host `{name}`: {words}")))?;
        if hosts.insert((*name).to_owned(), host).is_some() {
            return Err(wrong(format!("host `{name}` is there twice")));
        }
    }
    expect_named(&hosts)?;
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_say_how_a_host_is_reached() {
        let text = "# name ssh url token\nweb root@web http://web:8080/mcp s3cret # ours\n\nold  old -  -\nbare - http://bare/mcp -\nshort short\n";
        let hosts = read_registry(text).unwrap();
        let web = &hosts["web"];
        assert_eq!(web.ssh.as_deref(), Some("root@web"));
        assert_eq!(web.url.as_deref(), Some("http://web:8080/mcp"));
        assert_eq!(web.token, Some(Token::new("s3cret")));
        assert!(hosts["old"].url.is_none() && hosts["old"].token.is_none());
        assert!(hosts["bare"].ssh.is_none());
        assert_eq!(hosts.len(), 4);
    }

    #[test]
    fn a_wrong_line_is_named_and_its_token_is_not() {
        for (text, words) in [
            ("web", "line 1"),
            ("\nweb - - -", "line 2: host `web`: a host needs"),
            ("web -x - hush", "is no destination"),
            ("web a b hush more", "more than four"),
            ("a x\na y", "line 2: host `a` is there twice"),
            ("a* x", "host `a*`"),
        ] {
            let said = read_registry(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
            assert!(!said.contains("hush"), "{said}");
        }
    }
}
