//! Decides which commands may run: allow, ask or deny, by the first words of a command.
//!
//! The rules keep an honest agent from a mistake. Against a hostile agent only the roots and the user of the server hold.
//! So no rule lets a line through that cannot be read for sure: a person is asked, and where nobody can be asked, the line
//! does not run.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use lmcp_core::{Cx, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

use super::store::clip;

/// The decision about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Decision {
    /// Run the command.
    Allow,
    /// Ask a person first.
    Ask,
    /// Do not run the command.
    Deny,
}

/// A decision for every command that begins with these words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The decision.
    pub decision: Decision,
    /// The words, `git push`, say. A program without a `/` matches in every folder.
    pub words: Vec<String>,
}

impl Rule {
    /// Makes a rule for the commands that begin with these words.
    pub fn new(decision: Decision, prefix: &str) -> Self {
        Self {
            decision,
            words: prefix.split_whitespace().map(Into::into).collect(),
        }
    }

    fn matches(&self, command: &[String]) -> bool {
        let mut words = self.words.iter().zip(command).enumerate();
        command.len() >= self.words.len()
            && words.all(|(at, (rule, word))| {
                let word = if at == 0 && !rule.contains('/') {
                    base_name(word)
                } else {
                    word
                };
                rule == word
            })
    }
}

/// A command: a line for a shell, or words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line<'a> {
    Shell(&'a str),
    Words(&'a [String]),
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Run it?
    approve: bool,
}

/// The parts of a command that decide what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) line: Line<'a>,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) stdin: Option<&'a str>,
}

/// Lets a command through, asks a person about it, or refuses it.
pub(crate) async fn admit(rules: &[Rule], request: &Request<'_>, cx: &Cx) -> ToolResult<()> {
    expect_short(rules, request.line)?;
    let verdict = match decide(rules, request.line) {
        // Variables such as BASH_ENV, LD_PRELOAD and PATH can turn any program into another.
        verdict
            if verdict.decision == Decision::Allow
                && !rules.is_empty()
                && !request.env.is_empty() =>
        {
            Verdict::new(Decision::Ask, Why::Variables)
        }
        verdict => verdict,
    };
    // The text is made only when needed: most commands are allowed, and some of them are long.
    let shown = || clip(&request.line.shown());
    let why = &verdict.why;
    match verdict.decision {
        Decision::Allow => Ok(()),
        Decision::Deny => {
            let words = format!("the rules of this server forbid `{}` ({why})", shown());
            Err(ToolError::new(words))
        }
        Decision::Ask => {
            let answer = cx.ask_opt("approve", request.question()).await;
            match answer {
                Ok(Some(Approval { approve: true })) => Ok(()),
                Ok(Some(Approval { approve: false }) | None) => Err(not_approved(&shown())),
                Err(err) if err.is_missing_capability() => Err(ToolError::new(format!(
                    "the rules of this server want a person to approve `{}` ({why}), and this client cannot ask one",
                    shown()
                ))),
                // Nobody has said no: the question is still open, could not be asked, or was not answered.
                Err(err) => Err(err),
            }
        }
    }
}

/// Refuses a long command if there are rules: parsing a line takes many times its length.
fn expect_short(rules: &[Rule], line: Line<'_>) -> ToolResult<()> {
    let length = match line {
        Line::Shell(line) => line.len(),
        Line::Words(words) => words.iter().map(|word| word.len() + 1).sum(),
    };
    if rules.is_empty() || length <= MOST_CHECKED {
        return Ok(());
    }
    let words = format!(
        "this server has rules for commands, and checks those of up to {MOST_CHECKED} bytes; this one has {length}"
    );
    Err(ToolError::new(words).hint("give what is long as `stdin`, or in a file"))
}

/// The most bytes of a command that rules can check.
const MOST_CHECKED: usize = 64 * 1024;

impl Line<'_> {
    /// Returns the command as a person reads it. Words that would mean something to a shell are in quotes.
    fn shown(&self) -> Cow<'_, str> {
        match self {
            Self::Shell(line) => Cow::Borrowed(line),
            Self::Words(words) => {
                let plain =
                    |letter: char| letter.is_alphanumeric() || "-_./=:,@%+".contains(letter);
                let quoted =
                    words
                        .iter()
                        .map(|word| match word.chars().all(plain) && !word.is_empty() {
                            true => word.clone(),
                            false => format!("'{}'", word.replace('\'', "'\\''")),
                        });
                Cow::Owned(quoted.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

impl Request<'_> {
    /// Returns the question for the person, with everything on which the answer depends.
    fn question(&self) -> String {
        let mut question = format!(
            "An agent wants to run this command:\n\n{}\n",
            self.line.shown()
        );
        for (name, value) in self.env {
            question.push_str(&format!("\nwith {name}={value}"));
        }
        if let Some(stdin) = self.stdin {
            let beginning: String = stdin.chars().take(500).collect();
            question.push_str(&format!("\nreading: {beginning}"));
        }
        question.push_str("\nMay it?");
        question
    }
}

fn not_approved(shown: &str) -> ToolError {
    ToolError::new(format!("`{shown}` was not approved")).hint("ask the user what to do instead")
}

/// A decision, and its reason.
#[derive(Debug, PartialEq, Eq)]
struct Verdict<'a> {
    decision: Decision,
    why: Why<'a>,
}

/// Why a command is allowed, asked about or refused.
#[derive(Debug, PartialEq, Eq)]
enum Why<'a> {
    /// This rule decides.
    Rule(&'a Rule),
    /// No rule matches the command.
    NoRule,
    /// The commands that the line runs are not certain.
    Unclear,
    /// The command comes with variables.
    Variables,
}

impl<'a> Verdict<'a> {
    fn new(decision: Decision, why: Why<'a>) -> Self {
        Self { decision, why }
    }

    fn of(rule: &'a Rule) -> Self {
        Self::new(rule.decision, Why::Rule(rule))
    }
}

/// Words for a caller that is refused: `rule: deny `git push``.
impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(Rule { decision, words }) => {
                let decision = match decision {
                    Decision::Allow => "allow",
                    Decision::Ask => "ask",
                    Decision::Deny => "deny",
                };
                write!(f, "rule: {decision} `{}`", words.join(" "))
            }
            Self::NoRule => f.write_str("no rule allows it"),
            Self::Unclear => f.write_str("it cannot be told which commands it runs"),
            Self::Variables => f.write_str("variables can change what it does"),
        }
    }
}

/// Returns the strictest decision of the rules about the commands in a line.
fn decide<'a>(rules: &'a [Rule], line: Line<'_>) -> Verdict<'a> {
    if rules.is_empty() {
        return Verdict::new(Decision::Allow, Why::NoRule);
    }
    let commands = match line {
        Line::Words(words) => Some(vec![words.to_vec()]),
        Line::Shell(line) => commands(line),
    };
    let Some(commands) =
        commands.filter(|commands| commands.iter().all(|words| !is_wrapper(words)))
    else {
        // A program that a rule forbids by name stays forbidden, wherever it stands in a line that cannot be read.
        return match denying(rules, line) {
            Some(rule) => Verdict::of(rule),
            None => Verdict::new(Decision::Ask, Why::Unclear),
        };
    };
    let each = commands.iter().map(|command| decide_one(rules, command));
    let strictest = each.max_by_key(|verdict| verdict.decision);
    strictest.unwrap_or_else(|| Verdict::new(Decision::Allow, Why::NoRule))
}

/// Decides about one command: the longest rule that matches wins; of several equally long ones, the strictest.
fn decide_one<'a>(rules: &'a [Rule], command: &[String]) -> Verdict<'a> {
    let matching = rules.iter().filter(|rule| rule.matches(command));
    let best = matching.max_by_key(|rule| (rule.words.len(), rule.decision));
    let listed = rules.iter().any(|rule| rule.decision == Decision::Allow);
    // Where rules list what is allowed, everything else is asked about.
    let otherwise = if listed {
        Decision::Ask
    } else {
        Decision::Allow
    };
    best.map_or_else(|| Verdict::new(otherwise, Why::NoRule), Verdict::of)
}

/// Returns the first rule that forbids words which stand anywhere in the line.
fn denying<'a>(rules: &'a [Rule], line: Line<'_>) -> Option<&'a Rule> {
    let words: Vec<String> = match line {
        Line::Words(words) => words.to_vec(),
        Line::Shell(line) => {
            let split = |at: char| at.is_whitespace() || "\"'`$(){};&|<>".contains(at);
            line.split(split)
                .filter(|word| !word.is_empty())
                .map(Into::into)
                .collect()
        }
    };
    let mut denied = rules.iter().filter(|rule| rule.decision == Decision::Deny);
    denied.find(|rule| (0..words.len()).any(|at| rule.matches(words.get(at..).unwrap_or_default())))
}

/// Programs that run their arguments: the words behind them are a command, too, and not always in a visible place.
const WRAPPERS: &[&str] = &[
    "!",
    ".",
    "[[",
    "alias",
    "at",
    "awk",
    "bash",
    "batch",
    "bind",
    "builtin",
    "busybox",
    "case",
    "cgexec",
    "choom",
    "chpst",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "dash",
    "doas",
    "ed",
    "enable",
    "env",
    "eval",
    "exec",
    "find",
    "firejail",
    "fish",
    "flock",
    "for",
    "function",
    "gawk",
    "gdb",
    "hash",
    "if",
    "ionice",
    "ksh",
    "ltrace",
    "lua",
    "mapfile",
    "nice",
    "node",
    "nohup",
    "nsenter",
    "numactl",
    "parallel",
    "perl",
    "php",
    "pkexec",
    "prlimit",
    "python",
    "python3",
    "readarray",
    "ruby",
    "run-parts",
    "runcon",
    "runuser",
    "script",
    "sed",
    "select",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "sh",
    "softlimit",
    "source",
    "ssh",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "tclsh",
    "time",
    "timeout",
    "trap",
    "unshare",
    "until",
    "vi",
    "vim",
    "watch",
    "while",
    "xargs",
    "zsh",
    "{",
];

fn is_wrapper(command: &[String]) -> bool {
    command.first().is_none_or(|word| {
        let name = base_name(word);
        let versioned = ["python", "perl", "ruby", "lua", "ld-", "ld.", "node"];
        WRAPPERS.contains(&name)
            || versioned
                .iter()
                .any(|beginning| name.starts_with(beginning))
    })
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the commands of a line, each as its words; `None` if the line holds anything that is not plain words.
fn commands(line: &str) -> Option<Vec<Vec<String>>> {
    let (mut all, mut command, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // Substitution, expansion, redirection, grouping, comments: more than plain words.
            '$' | '`' | '<' | '>' | '(' | ')' | '{' | '}' | '[' | ']' | '*' | '?' | '~' | '#'
            | '!' | '=' => {
                return None;
            }
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        letter => quoted.push(letter),
                    }
                }
            }
            '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '$' | '`' => return None,
                        '\\' => match letters.next()? {
                            '\n' => return None,
                            letter => quoted.push(letter),
                        },
                        letter => quoted.push(letter),
                    }
                }
            }
            // A line that goes on in the next one reads differently than it looks.
            '\\' => match letters.next()? {
                '\n' => return None,
                letter => word.get_or_insert_default().push(letter),
            },
            ';' | '|' | '&' | '\n' => {
                command.extend(word.take());
                if !command.is_empty() {
                    all.push(std::mem::take(&mut command));
                }
            }
            blank if blank.is_whitespace() => command.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    command.extend(word);
    if !command.is_empty() {
        all.push(command);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<Rule> {
        vec![
            Rule::new(Decision::Allow, "git"),
            Rule::new(Decision::Ask, "git push"),
            Rule::new(Decision::Deny, "git push --force"),
            Rule::new(Decision::Deny, "rm"),
        ]
    }

    #[test]
    fn the_longest_rule_decides() {
        for (line, decision) in [
            ("git status", Decision::Allow),
            ("/usr/bin/git status", Decision::Allow),
            ("git push origin", Decision::Ask),
            ("git push --force origin", Decision::Deny),
            ("git 'push' \"--force\"", Decision::Deny),
            ("ls", Decision::Ask),
        ] {
            assert_eq!(
                decide(&rules(), Line::Shell(line)).decision,
                decision,
                "{line}"
            );
        }
    }

    #[test]
    fn every_command_of_a_line_counts() {
        for line in [
            "git status; rm x",
            "git status && rm x",
            "git log | rm x",
            "git status\nrm x",
            "git status & /bin/rm x",
        ] {
            assert_eq!(
                decide(&rules(), Line::Shell(line)).decision,
                Decision::Deny,
                "{line}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_for_sure_is_never_allowed() {
        for line in [
            "git status $(ls)",
            "git status `ls`",
            "git log > /etc/passwd",
            "X=1 git status",
            "bash -c 'git status'",
            "env git status",
            "git status 'unfinished",
            "g\\it $x",
            "{ git status; }",
            "git st\\\natus",
            "/usr/bin/[g]it status",
            "flock /tmp/x git status",
        ] {
            assert_ne!(
                decide(&rules(), Line::Shell(line)).decision,
                Decision::Allow,
                "{line}"
            );
        }
        for line in [
            "bash -c 'rm x'",
            "echo $(rm x)",
            "xargs rm",
            "env /bin/rm x",
        ] {
            assert_eq!(
                decide(&rules(), Line::Shell(line)).decision,
                Decision::Deny,
                "{line}"
            );
        }
    }

    #[test]
    fn without_a_list_of_the_allowed_the_rest_runs() {
        let rules = [Rule::new(Decision::Deny, "rm")];
        assert_eq!(
            decide(&rules, Line::Shell("ls -l")).decision,
            Decision::Allow
        );
        assert_eq!(
            decide(&rules, Line::Words(&["rm".into(), "x".into()])).decision,
            Decision::Deny
        );
        assert_eq!(
            decide(&[], Line::Shell("rm $(x)")).decision,
            Decision::Allow
        );
    }
}
